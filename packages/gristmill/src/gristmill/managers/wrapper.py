"""The script that every job really runs: our few lines around the user's body.

It sets the environment (values quoted, so newlines, quotes and `$` are safe), gives the portable
names `GRISTMILL_JOB_ID`, `GRISTMILL_ARRAY_ID` and `GRISTMILL_ARRAY_INDEX`, passes signals on,
and leaves an exit record, written by rename: the proof of how the job ended when the manager has
forgotten it. POSIX sh only.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from gristmill.jobs import Spec

STATE_DIRECTORY = "${GRISTMILL_STATE:-$HOME/.gristmill}"
EXIT_DIRECTORY = f"{STATE_DIRECTORY}/exits"
GATE_CLOSED = 119  #: exit code of a job that our own check keeps from running


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """What a manager's script needs around the body.

    `job_id`, `array_id`, `index` are shell expressions that give the ids inside the job; `index`
    must be empty outside an array. `signals_all`: a signal sent through the manager reaches every
    process of the job, so it is not passed on. `redirect` are shell lines that send output where
    it shall go, for managers which cannot. `chdir`: go to the working directory ourselves.
    """

    header: tuple[str, ...] = ()
    job_id: str
    array_id: str
    index: str = ""
    directive: str = ""  #: what directive lines of this manager begin with, as in `#SBATCH`
    shebang: str = "#!/bin/sh"
    redirect: tuple[str, ...] = ()
    before_exit: tuple[str, ...] = ()  #: shell lines that may change the exit code, `gm_rc`
    chdir: bool = False
    signals_all: bool = False
    extra_environment: Mapping[str, str] = field(default_factory=dict)


def build(frame: Frame, spec: Spec, body: str, token: str) -> str:
    """The whole script. `body` is the text of the user's script, unused with a command."""
    return "\n".join(
        [
            frame.shebang,
            *frame.header,
            *_ids(frame, token),
            *_environment({**frame.extra_environment, **spec.environment}),
            *_move(frame, spec),
            *frame.redirect,
            *_run(frame, spec, body, token),
            "",
        ]
    )


def _move(frame: Frame, spec: Spec) -> Iterable[str]:
    if frame.chdir and spec.directory is not None:
        yield f"cd -- {shlex.quote(spec.directory)} || exit 125"


def _ids(frame: Frame, token: str) -> Iterable[str]:
    yield f'GRISTMILL_JOB_ID="{frame.job_id}"'
    yield f'GRISTMILL_ARRAY_ID="{frame.array_id}"'
    yield f'GRISTMILL_ARRAY_INDEX="{frame.index}"'
    yield f"GRISTMILL_TOKEN={token}"
    yield "export GRISTMILL_JOB_ID GRISTMILL_ARRAY_ID GRISTMILL_ARRAY_INDEX GRISTMILL_TOKEN"
    yield f'gm_dir="{EXIT_DIRECTORY}"'
    yield 'gm_exit="$gm_dir/$GRISTMILL_TOKEN${GRISTMILL_ARRAY_INDEX:+.$GRISTMILL_ARRAY_INDEX}"'
    yield 'mkdir -p "$gm_dir"; gm_start=$(date +%s); rm -f "$gm_exit"'


def _environment(values: Mapping[str, str]) -> Iterable[str]:
    return (f"export {name}={shlex.quote(text)}" for name, text in values.items())


def _run(frame: Frame, spec: Spec, body: str, token: str) -> Iterable[str]:
    stdin = f"< {shlex.quote(spec.stdin)}" if spec.stdin else "<&0"
    if spec.command:
        yield "gm_body="
        start = shlex.join((*spec.command, *spec.arguments))
    else:
        yield from _unpack(body, frame.directive, token)
        start = " ".join((interpreter(body), '"$gm_body"', *map(shlex.quote, spec.arguments)))
    yield f"{start} {stdin} & gm_pid=$!"
    # a signal that reaches only this shell is meant for the body
    passed_on = ":" if frame.signals_all else 'kill -s {} "$gm_pid" 2>/dev/null'
    for name in ("TERM", "USR1", "USR2", "HUP"):
        yield f"trap '{passed_on.format(name)}' {name}"
    yield 'while :; do wait "$gm_pid"; gm_rc=$?; kill -0 "$gm_pid" 2>/dev/null || break; done'
    yield '[ -z "$gm_body" ] || rm -f "$gm_body"'
    yield (
        r"printf 'exit=%s\nstart=%s\nend=%s\nhost=%s\nid=%s\n' "
        '"$gm_rc" "$gm_start" "$(date +%s)" "$(uname -n)" "$GRISTMILL_JOB_ID" > "$gm_exit.$$"'
    )
    yield 'sync "$gm_exit.$$" 2>/dev/null; mv -f "$gm_exit.$$" "$gm_exit"'
    yield from frame.before_exit
    yield "exit $gm_rc"


def _unpack(body: str, directive: str, token: str) -> Iterable[str]:
    """The body in a file of its own, so that any interpreter can run it.

    Lines that a manager could take for directives of the wrapper are kept from it by a sign in
    front of every line, which `sed` takes away again.
    """
    end = f"GRISTMILL_END_{token}"
    yield 'gm_body=$(mktemp "${TMPDIR:-/tmp}/gristmill.XXXXXXXX") || exit 125'
    lines = body.removesuffix("\n").split("\n")
    if directive and any(line.lstrip().startswith(directive) for line in lines):
        yield f"sed 's/^|//' > \"$gm_body\" <<'{end}'"
        yield from ("|" + line for line in lines)
    else:
        yield f"cat > \"$gm_body\" <<'{end}'"
        yield from lines
    yield end


def interpreter(body: str) -> str:
    """The command that runs the body: from its `#!` line, else /bin/sh."""
    first = body.partition("\n")[0]
    if not first.startswith("#!"):
        return "/bin/sh"
    path, _, argument = first[2:].strip().partition(" ")
    return shlex.join([path, *([argument.strip()] if argument.strip() else [])]) or "/bin/sh"


def read_exit_record(text: str) -> dict[str, str]:
    """The `key=value` lines of an exit record."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {key: value for key, sign, value in pairs if sign}
