"""The examples of the documents about jobs: each page is run, on the local manager."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [
    "packages/gristmill/README.md",
    "docs/how-to/submit-jobs.md",
    "docs/reference/library.md",
    "docs/reference/command-line.md",
    "docs/reference/site-file.md",
]
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_the_examples_run(page: str, tmp_path: Path) -> None:
    """Blocks of Python share their names, as on the page; TOML is written to the file it names."""
    place = tmp_path / "rm"
    place.mkdir()
    (place / "local.toml").write_text("slots = 4\n")
    env = {
        **os.environ,
        "GRISTMILL_LOCAL": str(place),
        "GRISTMILL_STATE": str(tmp_path / "state"),
        "GRISTMILL_JOURNAL": str(tmp_path / "journal"),
        "GRISTMILL_MANAGER": "local",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    blocks = BLOCK.findall((ROOT / page).read_text())
    for kind, text in blocks:
        if kind == "toml":
            (tmp_path / text.partition("\n")[0].removeprefix("# ")).write_text(text)
    python = "\n".join(text for kind, text in blocks if kind == "python")
    shell = "\n".join(text for kind, text in blocks if kind == "sh")
    assert python or shell
    for argv, text in (([sys.executable, "-W", "error", "-"], python), (["sh", "-eu"], shell)):
        done = subprocess.run(
            argv, input=text, env=env, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, (text, done.stdout, done.stderr)
        assert "Traceback" not in done.stderr
