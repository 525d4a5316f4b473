"""The command's part for the platform: `login`, `publish`, `experiment …`.

`add_parsers` adds the subcommands; each sets `run`, a function of the parsed arguments that
returns the exit status. 0: done; 1: refused, or the experiment failed; 2: called wrongly.
"""

from __future__ import annotations

import argparse
import getpass
import json
import os
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gristmill.cli import credentials
from gristmill.errors import GristmillError

if TYPE_CHECKING:
    from gristmill.client import Client, Event, Experiment
    from gristmill.prefixes import DeclaredExperiment

    Subparsers = argparse._SubParsersAction[argparse.ArgumentParser]

Command = Callable[["Client", argparse.Namespace], int]


def add_parsers(subparsers: Subparsers) -> None:
    """Add `login`, `publish` and `experiment` to a command."""
    login = subparsers.add_parser("login", help="sign in to a Gristmill server")
    login.add_argument("url", help="address of the server, e.g. http://localhost:8000")
    login.add_argument("--username", help="asked for when left out")
    login.add_argument("--with-token", action="store_true", help="read a token from standard input")
    login.set_defaults(run=_login)
    publish = subparsers.add_parser("publish", help="bring a folder of declarations to the server")
    publish.add_argument("folder", type=Path, help="in BEAT's layout")
    publish.add_argument("--update", action="store_true", help="change versions that differ")
    publish.add_argument("--visibility", choices=("private", "public"), default="private")
    _with_server(publish, _publish)
    experiment = subparsers.add_parser("experiment", help="work with experiments")
    _add_experiment_parsers(experiment.add_subparsers(required=True, metavar="COMMAND"))


def _add_experiment_parsers(commands: Subparsers) -> None:
    create = commands.add_parser("create", help="make a draft")
    create.add_argument("source", type=Path, help="a JSON file, or a published folder that has one")
    create.add_argument("--name", help="of the experiment (default: the file's)")
    create.add_argument("--toolchain", help="owner/name/version; needed for a file")
    create.add_argument("--from", dest="which", help="which experiment of the folder")
    create.add_argument("--start", action="store_true", help="start it at once")
    _with_server(create, _create)
    listing = commands.add_parser("list", help="list experiments, the newest first")
    listing.add_argument("--state", help="only those in this state")
    listing.add_argument("--json", action="store_true", help="print JSON")
    _with_server(listing, _list)
    for name, run, text in (
        ("start", _start, "submit an experiment"),
        ("stop", _stop, "stop an experiment, and wait until nothing of it runs"),
        ("delete", _delete, "delete an experiment; one that runs is stopped first"),
        ("status", _status, "show an experiment and its blocks"),
        ("watch", _watch, "show what happens until it ends"),
        ("results", _results, "show what the analyzers found"),
    ):
        command = commands.add_parser(name, help=text)
        command.add_argument("experiment", help="name or id")
        if name in ("status", "results"):
            command.add_argument("--json", action="store_true", help="print JSON")
        if name == "start":
            command.add_argument("--wait", action="store_true", help="until it ends")
        _with_server(command, run)
    explain = commands.add_parser("explain", help="say why a block does not run")
    explain.add_argument("experiment", help="name or id")
    explain.add_argument("block")
    _with_server(explain, _explain)
    log = commands.add_parser("log", help="show the output of a block")
    log.add_argument("experiment", help="name or id")
    log.add_argument("block")
    log.add_argument("--follow", action="store_true", help="until there will be no more")
    _with_server(log, _log)


def _with_server(parser: argparse.ArgumentParser, command: Command) -> None:
    parser.add_argument("--server", help="address (default: that of the last login)")

    def run(arguments: argparse.Namespace) -> int:
        from gristmill.client import Client

        one = credentials.login(arguments.server)
        with Client(one.url, one.token) as client:
            return command(client, arguments)

    parser.set_defaults(run=run)


# ---- login and publish ----------------------------------------------------------------------


def _login(arguments: argparse.Namespace) -> int:
    from gristmill.client import Client

    with Client(arguments.url) as client:
        if arguments.with_token:
            token = sys.stdin.readline().strip()
        else:
            username = arguments.username or input("Username: ")
            password = _password(username)
            client.sign_in(username, password)
            name = f"gristmill on {socket.gethostname()}"[:100]
            token = client.create_personal_token(name).token
    with Client(arguments.url, token) as client:
        user = client.me()
        path = credentials.remember(credentials.Login(client.url, token))
    print(f"Signed in to {client.url} as {user.username}; the token is in {path}")
    return 0


def _password(username: str) -> str:
    if "GRISTMILL_PASSWORD" in os.environ:
        return os.environ["GRISTMILL_PASSWORD"]
    if not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\n")
    return getpass.getpass(f"Password of {username}: ")


def _publish(client: Client, arguments: argparse.Namespace) -> int:
    found = client.publish(
        arguments.folder, update=arguments.update, visibility=arguments.visibility
    )
    for what, refs in (("created", found.created), ("updated", found.updated)):
        for ref in refs:
            print(f"{what}  {ref}")
    if found.unchanged:
        print(f"{len(found.unchanged)} were there already")
    return 0


# ---- experiments ----------------------------------------------------------------------------


def _create(client: Client, arguments: argparse.Namespace) -> int:
    name, toolchain, declaration = _declared(client, arguments)
    experiment = client.create_experiment(name, toolchain=toolchain, declaration=declaration)
    print(f"{experiment.name}  {experiment.id}  {experiment.state}")
    if arguments.start:
        return _report(client.start_experiment(experiment.id))
    return 0


def _declared(client: Client, arguments: argparse.Namespace) -> tuple[str, str, Mapping[str, Any]]:
    """Return name, toolchain and declaration of the experiment that is meant."""
    source: Path = arguments.source
    if source.is_dir():
        one = _of_folder(source, client.me().username, arguments.which)
        return arguments.name or one.name, arguments.toolchain or one.toolchain, one.declaration
    if not arguments.toolchain:
        raise _Usage("say which toolchain the experiment is of: --toolchain OWNER/NAME/VERSION")
    return arguments.name or source.stem, arguments.toolchain, _read(source)


def _of_folder(folder: Path, owner: str, which: str | None) -> DeclaredExperiment:
    from gristmill.prefixes import owned_by, read_prefix

    experiments = owned_by(read_prefix(folder), owner).experiments
    found = [one for one in experiments if which in (None, one.name)]
    if len(found) != 1:
        names = ", ".join(one.name for one in experiments) or "none"
        raise _Usage(f"say which experiment of {folder} is meant (--from NAME): {names}")
    return found[0]


def _read(path: Path) -> Mapping[str, Any]:
    from gristmill.formats import parse_json

    try:
        found = parse_json(path.read_bytes())
    except OSError as error:
        raise _Usage(f"{path} cannot be read: {error.strerror}") from None
    if not isinstance(found, dict):
        raise _Usage(f"{path} holds no JSON object")
    return found


class _Usage(GristmillError, ValueError):
    """The command was called in a way that cannot be carried out."""


def _list(client: Client, arguments: argparse.Namespace) -> int:
    found = client.experiments(state=arguments.state)
    if arguments.json:
        print(json.dumps([one.raw for one in found], indent=2))
    else:
        rows = [(one.name, one.owner, one.state, _counted(one), one.id) for one in found]
        _print_table(rows, ("NAME", "OWNER", "STATE", "BLOCKS", "ID"))
    return 0


def _start(client: Client, arguments: argparse.Namespace) -> int:
    experiment = client.find_experiment(arguments.experiment)
    started = client.start_experiment(experiment.id)
    if not arguments.wait:
        return _report(started)
    return _report(client.wait(experiment.id), failed=1)


def _stop(client: Client, arguments: argparse.Namespace) -> int:
    experiment = client.find_experiment(arguments.experiment)
    client.stop_experiment(experiment.id)
    return _report(client.wait(experiment.id))


def _delete(client: Client, arguments: argparse.Namespace) -> int:
    experiment = client.find_experiment(arguments.experiment)
    client.delete_experiment(experiment.id)
    print(f"{experiment.name}  deleted")
    return 0


def _status(client: Client, arguments: argparse.Namespace) -> int:
    experiment = client.find_experiment(arguments.experiment)
    found = client.snapshot(experiment.id)
    if arguments.json:
        print(json.dumps(found.raw, indent=2))
        return 0
    _report(found.experiment)
    rows = [(one.name, one.kind, one.state, one.worker or "", _why(one)) for one in found.blocks]
    _print_table(rows, ("BLOCK", "KIND", "STATE", "WORKER", "WHY"))
    return 0


def _why(block: Any) -> str:
    failure = block.failure or {}
    return str(failure.get("message") or block.reason or "").split("\n", 1)[0]


def _watch(client: Client, arguments: argparse.Namespace) -> int:
    experiment = client.find_experiment(arguments.experiment)
    for event in client.watch(experiment.id):
        line = _line(event)
        if line:
            print(_plain(line), flush=True)
    return _report(client.experiment(experiment.id), failed=1)


def _line(event: Event) -> str:
    time = event.time.astimezone().strftime("%H:%M:%S")
    what = event.details
    if event.kind == "progress":
        return ""
    if event.kind == "block":
        failure = what.get("failure") or {}
        why = failure.get("message") or what.get("reason") or what.get("worker") or ""
        return f"{time}  {event.block:24} {what.get('state', ''):10} {why}".rstrip()
    return f"{time}  {what.get('state', event.kind)}"


def _results(client: Client, arguments: argparse.Namespace) -> int:
    experiment = client.find_experiment(arguments.experiment)
    found = client.results(experiment.id)
    if arguments.json:
        plain = {
            one.block: {name: result.value for name, result in one.results.items()} for one in found
        }
        print(json.dumps(plain, indent=2))
        return 0
    for one in found:
        print(one.block)
        for name, result in one.results.items():
            print(_plain(f"  {name:24} {_shown(result.type, result.value)}"))
    return 0


def _shown(type_: str, value: Any) -> str:
    if type_.startswith("plot/"):
        return f"({type_}: see the page, or --json)"
    if isinstance(value, dict) and {"columns", "rows"} <= value.keys():
        lines = [value["columns"], *value["rows"]]
        rows = ["  ".join(f"{cell!s:>6}" for cell in line) for line in lines]
        return "\n" + "\n".join(f"    {row}" for row in rows)
    return json.dumps(value)


def _explain(client: Client, arguments: argparse.Namespace) -> int:
    experiment = client.find_experiment(arguments.experiment)
    print(_plain(client.explain(experiment.id, arguments.block).message))
    return 0


def _log(client: Client, arguments: argparse.Namespace) -> int:
    experiment = client.find_experiment(arguments.experiment)
    for piece in client.log(experiment.id, arguments.block, follow=arguments.follow):
        stream = sys.stderr if piece.stream == "stderr" else sys.stdout
        stream.write(_plain(piece.text) if stream.isatty() else piece.text)
        stream.flush()
    return 0


def _report(experiment: Experiment, *, failed: int = 0) -> int:
    print(f"{experiment.name}  {experiment.state}  {_counted(experiment)}".rstrip())
    return failed if experiment.state in ("failed", "cancelled") else 0


def _counted(experiment: Experiment) -> str:
    return ", ".join(f"{n} {state}" for state, n in experiment.counts.items() if n)


def _print_table(rows: Sequence[Sequence[str]], head: Sequence[str]) -> None:
    lines = [head, *rows]
    widths = [max(len(line[n]) for line in lines) for n in range(len(head))]
    for line in lines:
        cells = [f"{cell:{width}}" for cell, width in zip(line, widths, strict=True)]
        print(_plain("  ".join(cells).rstrip()))


def _plain(text: str) -> str:
    """Return text that cannot command a terminal: others wrote what the server tells."""
    return "".join(
        letter if letter.isprintable() or letter in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for letter in text
    )
