"""The command `gristmill`: what a subcommand needs is loaded when it is called, not before."""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

from gristmill.errors import GristmillError

#: Subcommands that are programs of their own: module, and what to install where it is missing.
PROGRAMS = {
    "server": ("backend.app.cli", "gristmill-server[server]", "run the server"),
    "worker": ("backend.worker.main", "gristmill-server[worker]", "run a worker"),
    "pilots": ("backend.worker.pilots", "gristmill-server[worker]", "run workers on a cluster"),
    "simulate": ("backend.simulation.cli", "gristmill-server", "try policies on a recorded load"),
}
SERVER_COMMANDS = frozenset({"serve", "migrate", "create-admin", "openapi"})


def main(argv: Sequence[str] | None = None) -> int:
    """Run one subcommand; returns the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments and arguments[0] in PROGRAMS:
        return _program(arguments[0], arguments[1:])
    return _command(arguments)


def _program(name: str, arguments: list[str]) -> int:
    module, package, _ = PROGRAMS[name]
    try:
        program = importlib.import_module(module)
    except ModuleNotFoundError as error:
        sys.stderr.write(f"gristmill: `gristmill {name}` needs {error.name}: install {package!r}\n")
        return 2
    if name == "server" and not SERVER_COMMANDS & set(arguments):
        arguments = ["serve", *arguments]
    status: int = program.main(arguments)
    return status


def make_parser() -> argparse.ArgumentParser:
    """The parser of every subcommand."""
    from gristmill.cli import experiments, jobs

    parser = argparse.ArgumentParser(prog="gristmill")
    subparsers = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, (_, _, text) in PROGRAMS.items():
        subparsers.add_parser(name, help=text, add_help=False)
    jobs.add_parsers(subparsers)
    experiments.add_parsers(subparsers)
    return parser


def _command(argv: list[str]) -> int:
    arguments = make_parser().parse_args(argv)
    try:
        status: int = arguments.run(arguments)
    except ModuleNotFoundError as error:
        if error.name != "httpx":
            raise
        sys.stderr.write("gristmill: this needs httpx: install 'gristmill[client]'\n")
        return 2
    except GristmillError as error:
        sys.stderr.write(f"gristmill: {error}\n")
        return 1
    except KeyboardInterrupt:
        return 130
    return status


if __name__ == "__main__":
    sys.exit(main())
