"""The digits, submitted in three ways to a real server with a real worker: the same each time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gristmill.client import Client, Experiment
from tests.examples.farm import ROOT, Farm

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

DIGITS = ROOT / "examples/digits"
GENERATED = Path(__file__).parent / "with_generated_client.py"


@pytest.fixture(scope="module")
def farm() -> Iterator[Farm]:
    started = Farm.start()
    yield started
    started.close()


@pytest.fixture(scope="module")
def demo(farm: Farm) -> Iterator[Client]:
    with farm.client() as client:
        yield client


def run(client: Client, experiment: Experiment) -> Experiment:
    """Start an experiment and return it when it rests; a failure tells the blocks' reasons."""
    client.start_experiment(experiment.id)
    ended = client.wait(experiment.id)
    failures = {b.name: b.failure for b in client.snapshot(experiment.id).blocks if b.failure}
    assert ended.state == "done", failures
    return ended


def values(client: Client, experiment: Experiment) -> dict[str, Any]:
    [analyzer] = client.results(experiment.id)
    return {name: result.value for name, result in analyzer.results.items()}


@pytest.fixture(scope="module")
def first(demo: Client) -> dict[str, Any]:
    """The results of the first run, every block of which really ran."""
    ended = run(demo, demo.find_experiment("digits"))
    assert ended.counts["done"] == 9, ended.counts
    return values(demo, ended)


def test_the_client_runs_it(demo: Client, first: dict[str, Any]) -> None:
    assert first["accuracy"] == pytest.approx(0.98666, abs=1e-4)
    assert first["images"] == 450
    experiment = demo.find_experiment("digits")
    events = list(demo.watch(experiment.id))
    assert [event.seq for event in events] == list(range(1, len(events) + 1))
    assert events[-1].details["state"] == "done"


def test_splittable_blocks_ran_in_two_slots(demo: Client, first: dict[str, Any]) -> None:
    block = demo.block(demo.find_experiment("digits").id, "gradients")
    assert {attempt["index"] for attempt in block["attempts"]} == {0, 1}
    assert [output["rows"] for output in block["outputs"]] == [1797]


def test_what_a_block_prints_is_kept(demo: Client, first: dict[str, Any]) -> None:
    pieces = demo.log(demo.find_experiment("digits").id, "split")
    assert "450 of 1797 images" in "".join(piece.text for piece in pieces)


def test_the_command_runs_it_and_all_is_cached(
    farm: Farm, first: dict[str, Any], tmp_path: Path
) -> None:
    environment = os.environ | {"XDG_CONFIG_HOME": str(tmp_path)}

    def gristmill(*arguments: str, stdin: str = "") -> str:
        command = [sys.executable, "-m", "gristmill.cli.main", *arguments]
        done = subprocess.run(
            command, env=environment, input=stdin, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    gristmill("login", farm.url, "--username", "demo", stdin=farm.demo_password + "\n")
    assert "17 were there already" in gristmill("publish", str(DIGITS))
    gristmill("experiment", "create", str(DIGITS), "--name", "by-command")
    started = gristmill("experiment", "start", "by-command", "--wait")
    assert "by-command  done  9 cached" in started
    assert "summary" in gristmill("experiment", "watch", "by-command")
    results = json.loads(gristmill("experiment", "results", "by-command", "--json"))
    assert results == {"summary": first}
    assert "score_cells" in gristmill("experiment", "status", "by-command")
    assert "by-command" in gristmill("experiment", "list")
    gristmill("experiment", "delete", "by-command")
    assert "by-command" not in gristmill("experiment", "list")


def test_a_generated_client_runs_it(farm: Farm, first: dict[str, Any], tmp_path: Path) -> None:
    document = ROOT / "openapi/openapi.json"
    output = tmp_path / "generated"
    generated = subprocess.run(
        [
            *(sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"),
            *("--path", str(document), "--output-path", str(output / "platform_client")),
            "--fail-on-warning",
        ],
        env=os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert generated.returncode == 0, generated.stdout + generated.stderr
    done = subprocess.run(
        [sys.executable, str(GENERATED), farm.url, "demo", str(DIGITS)],
        env=os.environ | {"PYTHONPATH": str(output), "GRISTMILL_PASSWORD": farm.demo_password},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    told = json.loads(done.stdout)
    assert told["state"] == "done"
    assert told["counts"] == {"cached": 9}
    assert told["results"] == first


def test_a_run_without_the_cache_gives_the_same(
    farm: Farm, demo: Client, first: dict[str, Any]
) -> None:
    with farm.client("admin") as admin:
        assert admin.clean_cache(dry_run=False)["entries"] == 9
    [one] = [e for e in demo.experiments(q="digits") if e.name == "digits"]
    fork = demo.fork_experiment(one.id, "digits-again")
    ended = run(demo, fork)
    assert ended.counts["done"] == 9
    assert values(demo, ended) == first
