"""The how-to page's code is valid, and its first example runs, against the fake manager."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from gristmill.fakes import FakeManager
from gristmill.jobs import JobState

PAGE = Path(__file__).parents[3] / "docs/how-to/submit-jobs-from-python.md"


def examples() -> list[str]:
    return re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)


def test_every_example_can_be_read() -> None:
    assert len(examples()) == 4
    for text in examples():
        ast.parse(text)


def test_the_first_example_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("prep", "solve", "tidy"):
        (tmp_path / f"{name}.sh").write_text("#!/bin/sh\ntrue\n")
    text = examples()[0].replace("nodes=2, ", "")  # the fake is one machine
    text = text.replace("from gristmill import Job, connect", "from gristmill import Job")
    fake = FakeManager()
    scope: dict[str, object] = {"connect": fake.client}
    exec(compile(text, str(PAGE), "exec"), scope)  # our own page
    assert {job.state for job in fake.jobs.values()} == {JobState.DONE}
    assert len(fake.jobs) == 3
