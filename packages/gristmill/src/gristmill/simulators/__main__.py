"""The command line of the simulators: install, fault, stop."""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields
from pathlib import Path

from gristmill.simulators import supervisor
from gristmill.simulators.farm import Farm, Settings, plan_fault, source_folder, write_settings
from gristmill.simulators.frontend import FAULTS, MANAGERS

# `gristmill` itself is not imported: a submit has to be as quick as a real one
LAUNCHER = """#!{python} -SE
import sys, types
package = types.ModuleType("gristmill")
package.__path__ = [{source!r} + "/gristmill"]
sys.modules["gristmill"] = package
from gristmill.simulators.launcher import main
main({root!r}, {name!r})
"""


def install(root: Path, settings: Settings) -> Path:
    """Write a farm and the commands of its manager; gives the folder for PATH."""
    root = root.resolve()
    (root / "bin").mkdir(parents=True, exist_ok=True)
    write_settings(root, settings)
    Farm(root).close()  # which makes its tables, before two commands try to at once
    for name in MANAGERS[settings.manager][1]:
        path = root / "bin" / name
        path.write_text(
            LAUNCHER.format(
                python=sys.executable, source=source_folder(), root=str(root), name=name
            ),
            encoding="utf-8",
        )
        path.chmod(0o755)
    return root / "bin"


def main(words: list[str] | None = None) -> int:
    """Read the words and do it. Exit status 0, or 2 for words that make no sense."""
    chosen = _parser().parse_args(words)
    if chosen.action == "install":
        known = {item.name for item in fields(Settings)}
        given = {k: v for k, v in vars(chosen).items() if k in known and v is not None}
        print(install(chosen.folder, Settings(**given)))  # noqa: T201
    elif chosen.action == "fault":
        plan_fault(
            chosen.folder, chosen.command, chosen.kind, times=chosen.times, seconds=chosen.seconds
        )
    else:
        supervisor.stop(chosen.folder.resolve())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m gristmill.simulators", description=__doc__)
    actions = parser.add_subparsers(dest="action", required=True)
    make = actions.add_parser("install", help="write a farm and its commands into a folder")
    make.add_argument("folder", type=Path)
    make.add_argument("--manager", required=True, choices=sorted(MANAGERS))
    make.add_argument("--cores", type=int)
    make.add_argument("--history", type=float, help="seconds for which ended jobs are known")
    make.add_argument("--lag", type=float, help="seconds until the output of a job appears")
    fault = actions.add_parser("fault", help="spoil the next answers of a command")
    fault.add_argument("folder", type=Path)
    fault.add_argument("command", help="its name, or * for any")
    fault.add_argument("kind", choices=FAULTS)
    fault.add_argument("--times", type=int, default=1, help="-1: until further notice")
    fault.add_argument("--seconds", type=float, default=1.0)
    end = actions.add_parser("stop", help="end the supervisor and its jobs")
    end.add_argument("folder", type=Path)
    return parser


if __name__ == "__main__":
    sys.exit(main())
