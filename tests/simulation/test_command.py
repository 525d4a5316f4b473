"""`gristmill simulate` as a person calls it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from backend.simulation import plots
from gristmill.cli.main import main

SAMPLE = str(Path(__file__).parents[2] / "examples" / "simulation" / "laboratory.swf")
SMALL = ["--jobs", "60", "--users", "4", "--slots", "4"]


def simulated(capsys: pytest.CaptureFixture[str], *argv: str) -> Any:
    assert main(["simulate", *argv, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_policies_stand_side_by_side(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["simulate", SAMPLE]) == 0
    title, left_out, _, head, *rows = capsys.readouterr().out.rstrip().splitlines()
    assert title == "laboratory.swf: 716 jobs of 4 users on 16 slots of 1 worker"
    assert left_out == "left out: 1 records that did not run"
    assert head.split()[:3] == ["policy", "wait", "mean"]
    assert [row.split()[0] for row in rows] == ["fair-share", "fifo", "priority"]
    assert len({len(line) for line in (head, *rows)}) == 1


def test_json_has_every_figure(capsys: pytest.CaptureFixture[str]) -> None:
    found = simulated(capsys, SAMPLE, "--policy", "fair-share", "--policy", "fifo")
    assert found["farm"] == {"workers": 1, "slots": 16}
    fair, fifo = found["policies"]
    assert (fair["policy"], fifo["policy"]) == ("fair-share", "fifo")
    assert fair["fairness_of_shares"] > fifo["fairness_of_shares"]
    for policy in (fair, fifo):
        assert 0 < policy["utilisation"] <= 1
        assert policy["wait"]["median"] <= policy["wait"]["p95"]
        assert policy["bounded_slowdown"]["mean"] >= 1
        busy = policy["utilisation"] * 16 * policy["makespan"]
        assert busy == pytest.approx(found["load"]["slot_seconds"])


def test_the_seed_decides(capsys: pytest.CaptureFixture[str]) -> None:
    first, again, other = (simulated(capsys, *SMALL, "--seed", seed) for seed in ("3", "3", "4"))
    assert first == again
    assert first["policies"] != other["policies"]


def test_rights_are_given_to_all_or_to_one(capsys: pytest.CaptureFixture[str]) -> None:
    rights = ["--right", "1", "--right", "user1=16/2"]
    free = simulated(capsys, SAMPLE, "--policy", "priority")
    held = simulated(capsys, SAMPLE, "--policy", "priority", *rights)
    assert held["policies"][0]["wait"]["mean"] > free["policies"][0]["wait"]["mean"]


def test_plots_are_vega_lite_with_their_data(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    found = simulated(capsys, *SMALL, "--jobs", "900", "--plots", str(tmp_path / "plots"))
    written = sorted((tmp_path / "plots").iterdir())
    assert [str(path) for path in written] == sorted(found["plots"])
    assert [path.name.partition(".")[0] for path in written] == [
        "busy-slots",
        "slowdowns",
        "users",
        "waiting-slots",
        "waits",
    ]
    for path in written:
        spec = json.loads(path.read_text())
        assert spec["$schema"] == plots.SCHEMA
        rows = spec["data"]["values"]
        assert {row["policy"] for row in rows} == {"fair-share", "fifo", "priority"}
        assert len(rows) <= 3 * plots.POINTS
        fields = {channel["field"] for channel in spec["encoding"].values() if "field" in channel}
        assert fields <= rows[0].keys()
    ends = [r["part"] for r in json.loads(written[4].read_text())["data"]["values"]]
    assert ends.count(1.0) == 3


def test_a_policy_of_ones_own_comes_from_a_file(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_for_a_test.py").write_text(
        "def last(candidate, now):\n    return tuple(-part for part in candidate.age[:1])\n"
    )
    monkeypatch.chdir(tmp_path)
    name = "mine_for_a_test:last"
    found = simulated(capsys, *SMALL, "--policy", name, "--policy", "fifo")
    mine, fifo = found["policies"]
    assert mine["policy"] == name
    assert mine["wait"] != fifo["wait"]


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["nothing.swf"], "cannot read nothing.swf"),
        (["--policy", "lottery"], "there is no policy 'lottery'; there are fair-share"),
        (["--policy", "nobody:knows"], "there is no policy 'nobody:knows'"),
        (["--load", "0"], "needs load above 0"),
        ([SAMPLE, "--right", "ann=3"], "names 'ann', who submits nothing in laboratory.swf"),
        (["--plots", "/proc/nothing/plots"], "/proc/nothing"),
    ],
)
def test_what_cannot_be_is_told_in_a_sentence(
    argv: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["simulate", "--jobs", "5", *argv]) == 1
    said = capsys.readouterr().err
    assert why in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("argv", "why"),
    [
        (["--right", "many"], "'many' is not [USER=]SLOTS[/PRIORITY]"),
        (["--slots", "0"], "'0' is not a number from 1"),
    ],
)
def test_wrong_options_are_told(
    argv: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["simulate", *argv])
    assert why in capsys.readouterr().err
