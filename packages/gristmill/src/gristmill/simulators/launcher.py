"""What an installed command runs: read the farm, answer, and see to it that jobs are started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from gristmill.simulators import supervisor
from gristmill.simulators.farm import Farm
from gristmill.simulators.frontend import answer, call, load


def main(root: str, name: str) -> None:
    """Answer one command line, then exit with its status."""
    farm = Farm(Path(root))
    front = load(farm.settings.manager)
    out, err, rc = answer(front, name, call(farm, sys.argv[1:], _stdin))
    if farm.has_unfinished():
        supervisor.ensure(Path(root))
    farm.close()
    sys.stdout.buffer.write(out)
    sys.stderr.buffer.write(err)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(rc)  # nothing is left to clean up, and it saves time


def _stdin() -> str:
    return sys.stdin.buffer.read().decode("utf-8", "surrogateescape")
