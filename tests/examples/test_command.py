"""The command's part for the platform: what it keeps, what it says, what it never prints."""

from __future__ import annotations

import json
import stat
from pathlib import Path
from typing import Any

import httpx
import pytest

from gristmill import client as clients
from gristmill.cli import credentials, main
from gristmill.cli.credentials import Login, NoServer

EXPERIMENT = {
    "id": "11111111-1111-1111-1111-111111111111",
    "name": "digits",
    "owner": "ann",
    "toolchain": "ann/digits/1",
    "state": "failed",
    "counts": {"done": 3, "failed": 1, "queued": 0},
}
ESCAPE = "\x1b]8;;http://evil\x1b\\"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for settings, with a login in it."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    for name in ("GRISTMILL_URL", "GRISTMILL_TOKEN", "GRISTMILL_PASSWORD"):
        monkeypatch.delenv(name, raising=False)
    credentials.remember(Login("http://farm", "secret-token"))
    return tmp_path


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Answers of a server by path; what is not there is not found."""
    answers: dict[str, Any] = {
        "/me": {"id": "1", "username": "ann"},
        "/experiments": {"items": [EXPERIMENT], "next": None},
        f"/experiments/{EXPERIMENT['id']}": EXPERIMENT,
    }

    def handle(request: httpx.Request) -> httpx.Response:
        answer = answers.get(request.url.path.removeprefix("/api/v1"))
        if answer is None:
            problem = {"detail": "There is no such experiment", "code": "not_found"}
            return httpx.Response(404, json=problem)
        return httpx.Response(200, json=answer)

    class Faked(clients.Client):
        def __init__(self, url: str, token: str | None = None) -> None:
            super().__init__(url, token, transport=httpx.MockTransport(handle))

    monkeypatch.setattr(clients, "Client", Faked)
    return answers


def test_a_login_is_kept_for_its_owner_alone(home: Path) -> None:
    file = home / "gristmill/servers.json"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    credentials.remember(Login("http://other", "other-token"))
    assert credentials.login(None) == Login("http://other", "other-token")
    assert credentials.login("http://farm/") == Login("http://farm", "secret-token")
    assert "secret-token" not in repr(credentials.login("http://farm"))


def test_variables_go_before_the_file(home: Path) -> None:
    variables = {"XDG_CONFIG_HOME": str(home), "GRISTMILL_URL": "http://v", "GRISTMILL_TOKEN": "t"}
    assert credentials.login(None, variables) == Login("http://v", "t")


def test_without_a_login_it_says_what_to_do(tmp_path: Path) -> None:
    variables = {"XDG_CONFIG_HOME": str(tmp_path)}
    with pytest.raises(NoServer, match="gristmill login URL"):
        credentials.login(None, variables)
    with pytest.raises(NoServer, match="gristmill login http://farm"):
        credentials.login("http://farm", variables)
    (tmp_path / "gristmill").mkdir()
    (tmp_path / "gristmill/servers.json").write_text("{")
    with pytest.raises(NoServer, match="cannot be read"):
        credentials.login(None, variables)


@pytest.mark.usefixtures("home")
def test_a_list_and_its_json(server: dict[str, Any], capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["experiment", "list"]) == 0
    assert "digits  ann    failed  3 done, 1 failed" in capsys.readouterr().out
    assert main.main(["experiment", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [EXPERIMENT]


@pytest.mark.usefixtures("home")
def test_watching_a_failed_experiment_fails(
    server: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    failure = {"kind": "exception", "message": f"ValueError: {ESCAPE}no image"}
    details = {"state": "failed", "failure": failure}
    event = {"seq": 1, "time": "2026-03-01T10:00:00Z", "kind": "block", "block": "svm"}
    server[f"/experiments/{EXPERIMENT['id']}/events"] = {
        "events": [event | {"details": details}],
        "last_seq": 1,
        "ended": True,
    }
    assert main.main(["experiment", "watch", "digits"]) == 1
    told = capsys.readouterr().out
    assert "svm" in told
    assert "ValueError: " in told
    assert "\x1b" not in told


@pytest.mark.usefixtures("home", "server")
def test_a_refusal_is_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main.main(["experiment", "explain", "digits", "nothing"]) == 1
    assert capsys.readouterr().err == "gristmill: There is no such experiment\n"
    assert main.main(["experiment", "start", "unknown"]) == 1
    assert capsys.readouterr().err == "gristmill: You have no experiment called 'unknown'\n"


@pytest.mark.usefixtures("home", "server")
def test_creating_says_what_is_missing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "one.json"
    assert main.main(["experiment", "create", str(file)]) == 1
    assert "--toolchain OWNER/NAME/VERSION" in capsys.readouterr().err
    assert main.main(["experiment", "create", str(file), "--toolchain", "a/b/1"]) == 1
    assert "cannot be read" in capsys.readouterr().err
    file.write_text('{"a": 1, "a": 2}')
    assert main.main(["experiment", "create", str(file), "--toolchain", "a/b/1"]) == 1
    assert "stands twice in one object at /a" in capsys.readouterr().err


@pytest.mark.usefixtures("home")
def test_results_are_shown_as_scalars_and_tables(
    server: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    results = {
        "accuracy": {"type": "float32", "value": 0.5},
        "confusion": {"type": "system/table/1", "value": {"columns": ["a"], "rows": [[1], [2]]}},
        "drawn": {"type": "plot/vega_lite/1", "value": {}},
    }
    server[f"/experiments/{EXPERIMENT['id']}/results"] = {
        "analyzers": [{"block": "summary", "results": results}]
    }
    assert main.main(["experiment", "results", "digits"]) == 0
    told = capsys.readouterr().out
    assert "0.5" in told
    assert "(plot/vega_lite/1: see the page, or --json)" in told
    assert main.main(["experiment", "results", "digits", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["summary"]["accuracy"] == 0.5


def test_a_program_that_is_not_installed_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(main.PROGRAMS, "server", ("nothing.here", "gristmill-server[server]", ""))
    assert main.main(["server"]) == 2
    assert "install 'gristmill-server[server]'" in capsys.readouterr().err
