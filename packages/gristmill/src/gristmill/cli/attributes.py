"""The options that stand for attributes of a job, the same for `submit` and `render`."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from gristmill import headers
from gristmill.cli import output
from gristmill.errors import BadValue
from gristmill.jobs import Job
from gristmill.managers.wrapper import interpreter

# (option, attribute, metavar, help)
TEXTS = (
    ("--name", "name", "NAME", "name (default: the script's)"),
    ("--time", "time", "TIME", "wall time: 90m, 1h30m, 36:00:00"),
    ("--memory", "memory", "SIZE", "memory of the whole job: 4G"),
    ("--memory-per-core", "memory_per_core", "SIZE", "memory for each core"),
    ("--gpus", "gpus", "N", "GPUs of the whole job: 4, or a100:4"),
    ("--queue", "queue", "NAME", "queue, partition or class"),
    ("--account", "account", "NAME", "account that is charged"),
    ("--project", "project", "NAME", "project"),
    ("--reservation", "reservation", "NAME", "reservation to run in"),
    ("--qos", "qos", "NAME", "quality of service"),
    ("--node-kind", "node_kind", "NAME", "kind of node, as the site file names it"),
    ("--mail-on", "mail_on", "EVENTS", "begin,end,abort"),
    ("--mail-to", "mail_to", "ADDRESS", "where mail goes"),
    ("--begin", "begin", "TIME", "not before: 2030-01-31T08:00+01:00"),
    ("--array", "array", "INDICES", "array: 0-99, 0-98:2, 1,3,5-9; %%10 for at most ten at once"),
    ("--directory", "directory", "PATH", "working directory"),
    ("--stdin", "stdin", "PATH", "file that the job reads"),
    ("--stdout", "stdout", "PATH", "output; %%j is the id, %%a the index, %%x the name"),
    ("--stderr", "stderr", "PATH", "errors (default: with the output)"),
)
NUMBERS = (
    ("--nodes", "nodes", "machines"),
    ("--tasks", "tasks", "tasks in all"),
    ("--tasks-per-node", "tasks_per_node", "tasks of each machine"),
    ("--cores-per-task", "cores_per_task", "cores of each task"),
    ("--cores-per-node", "cores_per_node", "cores of each machine"),
    ("--priority", "priority", "priority, in the manager's own numbers"),
)
LISTS = (
    ("--feature", "features", "NAME", "a feature that the nodes must have"),
    ("--licence", "licences", "NAME:N", "licences"),
    ("--after-ok", "after_ok", "ID", "start when this job has ended well"),
    ("--after-not-ok", "after_not_ok", "ID", "start when this job has ended badly"),
    ("--after-any", "after_any", "ID", "start when this job has ended"),
    ("--after-start", "after_start", "ID", "start when this job has started"),
)


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add what says which job: script or command, attributes, or a file of jobs."""
    parser.add_argument("script", nargs="?", help="the job's script; its header is read")
    parser.add_argument("arguments", nargs="*", help="arguments of the script")
    parser.add_argument("--command", action="store_true", help="the words are a command, no script")
    parser.add_argument("--dag", type=Path, metavar="FILE", help="a file of jobs: JSON or TOML")
    parser.add_argument(
        "--array-file", type=Path, metavar="FILE", help="an array: one line of arguments an element"
    )
    parser.add_argument("--no-header", action="store_true", help="leave the script's header alone")
    group = parser.add_argument_group("attributes")
    for option, name, metavar, text in TEXTS:
        group.add_argument(option, dest=name, metavar=metavar, help=text)
    for option, name, text in NUMBERS:
        group.add_argument(option, dest=name, type=int, metavar="N", help=text)
    for option, name, metavar, text in LISTS:
        group.add_argument(option, dest=name, action="append", metavar=metavar, help=text)
    group.add_argument("--env", action="append", metavar="NAME=VALUE", help="a variable")
    group.add_argument(
        "--native", action="append", metavar="MANAGER:OPTION", help="an option as it is"
    )
    group.add_argument("--exclusive", action="store_true", default=None, help="whole machines")
    group.add_argument("--hold", action="store_true", default=None, help="submit it held")
    group.add_argument(
        "--requeue", action=argparse.BooleanOptionalAction, help="may be run again after a failure"
    )


def job_of(given: argparse.Namespace) -> Job:
    """The job of a command line: the script's header, and over it the options."""
    if given.script is None:
        raise BadValue("name a script, --command with its words, or --dag FILE")
    options = _options(given)
    arguments = tuple(given.arguments)
    lines = _lines(given.array_file) if given.array_file else None
    if lines is not None:
        options["array"] = _indices(len(lines), options.get("array"))
    if given.command:
        if lines is None:
            return Job(command=(given.script, *arguments), **options)
        start = shlex.join((given.script, *arguments))
        options.setdefault("name", Path(given.script).name)
        return Job(script_text=_cases(lines, f'exec {start} "$@"'), **options)
    header = None if given.no_header else headers.read_file(given.script)
    if header is not None:
        _tell_missed(given.script, header)
        options = {**header.attributes, **_native(header, options)}
    if lines is None and header is None:
        return Job(given.script, arguments=arguments, **options)
    text = _text(given.script) if header is None else header.body
    options.setdefault("name", Path(given.script).name)
    if lines is not None:
        text = _cases(lines, _unpacked(text, arguments))
        arguments = ()
    return Job(script_text=text, arguments=arguments, **options)


def _options(given: argparse.Namespace) -> dict[str, Any]:
    names = [name for _, name, *_ in (*TEXTS, *NUMBERS, *LISTS)] + ["exclusive", "hold", "requeue"]
    found = {name: value for name in names if (value := getattr(given, name)) is not None}
    if given.env:
        found["environment"] = dict(_pair(text, "=", "--env NAME=VALUE") for text in given.env)
    native: dict[str, list[str]] = {}
    for text in given.native or ():
        manager, option = _pair(text, ":", "--native slurm:--switches=1")
        native.setdefault(manager, []).append(option)
    return {**found, "native": native} if native else found


def _pair(text: str, sign: str, example: str) -> tuple[str, str]:
    name, found, value = text.partition(sign)
    if not found:
        raise BadValue(f"{text!r} cannot be read; write {example}")
    return name, value


def _native(header: headers.Header, options: dict[str, Any]) -> dict[str, Any]:
    """Options that only the script's own manager knows go to it as they are."""
    if not header.options:
        return options
    native = dict(options.get("native", {}))
    native[header.manager] = [*header.options, *native.get(header.manager, ())]
    return {**options, "native": native}


def _tell_missed(script: str, header: headers.Header) -> None:
    for line in header.not_understood:
        output.warn(f"{script}: {line} (only {header.manager} is given it)")


def _text(path: str | Path) -> str:
    try:
        return Path(path).expanduser().read_text(encoding="utf-8", errors="surrogateescape")
    except OSError as error:
        raise BadValue(f"{path} cannot be read: {error.strerror}") from None


def _lines(path: Path) -> list[list[str]]:
    """The words of each line that is neither empty nor a comment."""
    found = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        try:
            words = shlex.split(line, comments=True)
        except ValueError as error:
            raise BadValue(f"{path}, line {number}: {error}") from None
        if words:
            found.append(words)
    if not found:
        raise BadValue(f"{path} has no line with arguments")
    return found


def _indices(count: int, given: str | None) -> str:
    """`--array %5` beside a file says only how many at once."""
    if given is None or given.startswith("%"):
        return f"0-{count - 1}{given or ''}" if count > 1 else f"0{given or ''}"
    return given


def _cases(lines: Sequence[Sequence[str]], start: str) -> str:
    """A script that takes the arguments of its element, then starts."""
    cases = [f"{index}) set -- {shlex.join(words)} ;;" for index, words in enumerate(lines)]
    head = ["#!/bin/sh", 'case "$GRISTMILL_ARRAY_INDEX" in', *cases]
    return "\n".join([*head, "*) echo 'no such element' >&2; exit 2 ;;", "esac", start, ""])


def _unpacked(body: str, arguments: Sequence[str]) -> str:
    """Shell lines that run a script of any interpreter, which is kept in them."""
    end = "GRISTMILL_SCRIPT"
    while f"\n{end}\n" in f"\n{body}\n":
        end += "_"
    words = " ".join(map(shlex.quote, arguments))
    return "\n".join([
        'gm_script=$(mktemp) || exit 125',
        f"cat > \"$gm_script\" <<'{end}'",
        body.removesuffix("\n"),
        end,
        f'{interpreter(body)} "$gm_script" {words} "$@"; gm_status=$?',
        'rm -f "$gm_script"; exit $gm_status',
    ])  # fmt: skip
