"""What is shipped for operators: it parses, and it speaks of what there is.

No container engine runs here: the compose file is checked by reading it, its images are not built.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from backend.app.settings import Settings
from backend.worker import config as worker_config

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
UNITS = sorted((DEPLOY / "systemd").iterdir())
DASHBOARD = json.loads((DEPLOY / "grafana" / "gristmill.json").read_text())
METRIC = re.compile(r"\b(?:gristmill|process|python)_[a-z_]+\b")


# ---- compose and image --------------------------------------------------------------------


def compose() -> Any:
    return yaml.safe_load((ROOT / "compose.yaml").read_text())


def test_the_compose_file_names_only_what_it_declares() -> None:
    found = compose()
    services = found["services"]
    assert services.keys() == {"database", "server", "worker"}
    for service in services.values():
        assert set(service.get("depends_on", {})) <= services.keys()
        assert set(service.get("secrets", ())) <= found["secrets"].keys()
        for volume in service.get("volumes", ()):
            source = volume.partition(":")[0]
            assert source in found["volumes"] or (ROOT / source).exists(), volume


def test_the_compose_file_builds_what_the_dockerfile_has() -> None:
    stages = set(
        re.findall(r"^FROM \S+ AS (\w+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    )
    for service in compose()["services"].values():
        if "build" in service:
            assert service["build"]["target"] in stages


def test_what_the_dockerfile_copies_is_there() -> None:
    text = (ROOT / "Dockerfile").read_text()
    for line in re.findall(r"^COPY (?!--from)(.+)$", text, re.MULTILINE):
        for source in line.split()[:-1]:
            assert (ROOT / source).exists(), line


def test_every_variable_of_the_compose_file_is_a_setting() -> None:
    known = {f"GRISTMILL_{name.upper()}" for name in Settings.model_fields} | {"DATABASE_URL"}
    assert compose()["services"]["server"]["environment"].keys() <= known


def test_the_servers_settings_are_as_compose_would_give_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    example = dict(
        line.split("=", 1)
        for line in (DEPLOY / "compose.env.example").read_text().splitlines()
        if "=" in line and not line.startswith("#")
    )
    given = example | {"GRISTMILL_DATABASE_PASSWORD": "pw", "GRISTMILL_METRICS_TOKEN": "tk"}
    for name, value in compose()["services"]["server"]["environment"].items():
        monkeypatch.setenv(name, interpolated(str(value), given))
    settings = Settings()
    assert settings.database_url is not None
    url = settings.database_url.get_secret_value()
    assert url == "postgresql+asyncpg://gristmill:pw@database/gristmill"
    assert "server" in settings.allowed_hosts  # the worker calls it so
    assert settings.allowed_origins == ("http://localhost:8000",)
    assert settings.secure_cookies is False


def interpolated(text: str, given: dict[str, str]) -> str:
    """Do with ${NAME}, ${NAME:-default} and ${NAME:?error} what compose does."""
    pattern = re.compile(r"\$\{(\w+)(?:(:-|:\?)([^}]*))?\}")
    return pattern.sub(lambda m: given.get(m[1]) or (m[3] if m[2] == ":-" else ""), text)


def test_the_compose_workers_configuration_is_one(tmp_path: Path) -> None:
    table = tomllib.loads((DEPLOY / "worker.toml").read_text())
    assert table["token_file"] == "/run/secrets/worker-token"
    token = tmp_path / "token"
    token.write_text("gristmill_wrk_x\n")
    argv = ["--config", str(DEPLOY / "worker.toml"), "--server", "http://server:8000"]
    read = worker_config.read([*argv, "--token-file", str(token)], {}, "python3")
    assert (read.name, read.server) == ("compose", "http://server:8000")
    assert read.environments[0].executable[-1] == "gristmill.runtime"


# ---- systemd ------------------------------------------------------------------------------


@pytest.mark.parametrize("unit", UNITS, ids=lambda unit: unit.name)
def test_units_are_understood_by_systemd(unit: Path, tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    if program is None:  # then at least they have the sections of their kind
        sections = re.findall(r"^\[(\w+)\]$", unit.read_text(), re.MULTILINE)
        assert sections[:2] == ["Unit", unit.suffix[1:].capitalize()]
        return
    for each in UNITS:  # what they start is not installed here, and verify wants it
        text = re.sub(r"/opt/gristmill/\S+", "/bin/sh", each.read_text())
        (tmp_path / each.name).write_text(text)
    done = subprocess.run(
        [program, "verify", tmp_path / unit.name], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_units_start_programs_that_are_there() -> None:
    for unit in UNITS:
        for program in re.findall(r"^ExecStart=(.+)$", unit.read_text(), re.MULTILINE):
            if " -m " in program:
                module = program.split(" -m ")[1].split()[0]
                assert (ROOT / module.replace(".", "/") / "__main__.py").exists()
            else:
                assert os.access(DEPLOY / Path(program).name, os.X_OK)


# ---- dashboard ----------------------------------------------------------------------------


def expressions() -> list[str]:
    return [target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]]


async def test_every_metric_of_the_dashboard_is_exported(client: httpx.AsyncClient) -> None:
    text = (await client.get("/metrics")).text
    exported = set(re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE))
    exported |= set(re.findall(r"^(\w+)[{ ]", text, re.MULTILINE))
    await client.get("/healthz")
    text = (await client.get("/metrics")).text  # histograms with labels have samples now
    exported |= set(re.findall(r"^(\w+)[{ ]", text, re.MULTILINE))
    used = {name for expression in expressions() for name in METRIC.findall(expression)}
    assert len(used) > 15
    assert used <= exported, used - exported


async def test_the_schedulers_metrics_are_all_on_the_dashboard(client: httpx.AsyncClient) -> None:
    text = (await client.get("/metrics")).text
    exported = {
        name
        for name in re.findall(r"^# TYPE (\S+) (?:gauge|counter|histogram)", text, re.MULTILINE)
        if name.startswith("gristmill_") and not name.endswith("_created")
    }
    shown = " ".join(expressions())
    assert {name for name in exported if name not in shown} <= {"gristmill_loop_last_lag_seconds"}


def test_panels_do_not_overlap_and_have_numbers_of_their_own() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (place["x"] + i, place["y"] + j) for i in range(place["w"]) for j in range(place["h"])
        }
        assert place["x"] + place["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(set(ids)) == len(ids)


async def test_the_metrics_of_the_guide_are_exported(client: httpx.AsyncClient) -> None:
    page = (ROOT / "docs" / "how-to" / "operate.md").read_text()
    await client.get("/healthz")
    text = (await client.get("/metrics")).text
    exported = set(re.findall(r"^(?:# TYPE )?(\w+)[{ ]", text, re.MULTILINE))
    told = set(re.findall(r"\bgristmill_(?:queue|scheduler|event|http|loop|l|w|e)\w+", page))
    assert len(told) > 10
    assert told <= exported, told - exported


def test_the_yaml_of_the_guide_is_yaml() -> None:
    page = (ROOT / "docs" / "how-to" / "operate.md").read_text()
    scrape, alerts = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert yaml.safe_load(scrape)["scrape_configs"][0]["job_name"] == "gristmill"
    rules = yaml.safe_load(alerts)["groups"][0]["rules"]
    assert all({"alert", "expr"} <= rule.keys() for rule in rules)
