"""Completion scripts for bash, zsh and fish, made from the parser itself."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

BASH = """\
_gristmill() {{
    local word=${{COMP_WORDS[COMP_CWORD]}} command=${{COMP_WORDS[1]}} words
    if [ "$COMP_CWORD" = 1 ]; then
        COMPREPLY=($(compgen -W "{commands}" -- "$word")); return
    fi
    case "$command" in
{cases}
    esac
    case "$word" in
        -*) COMPREPLY=($(compgen -W "$words" -- "$word")) ;;
        *) COMPREPLY=($(compgen -W "$words" -- "$word") $(compgen -f -- "$word")) ;;
    esac
}}
complete -o filenames -F _gristmill gristmill
"""
ZSH = """\
#compdef gristmill
autoload -U +X bashcompinit && bashcompinit
{bash}"""


def run(given: argparse.Namespace) -> int:
    """Print the script for a shell."""
    from gristmill.cli.main import make_parser

    print(script(make_parser(), given.shell), end="")
    return 0


def script(parser: argparse.ArgumentParser, shell: str) -> str:
    """The completion script of a parser with subcommands."""
    tree = {name: list(_words(sub)) for name, sub in _subparsers(parser)}
    if shell == "fish":
        return "\n".join(_fish(parser)) + "\n"
    cases = "\n".join(
        f'        {name}) words="{" ".join(words)}" ;;' for name, words in tree.items()
    )
    bash = BASH.format(commands=" ".join(tree), cases=cases)
    return bash if shell == "bash" else ZSH.format(bash=bash)


def _subparsers(
    parser: argparse.ArgumentParser,
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            yield from action.choices.items()


def _words(parser: argparse.ArgumentParser) -> Iterator[str]:
    """Options, choices of positionals, and subcommands of a subcommand."""
    for action in parser._actions:
        yield from action.option_strings
        if not action.option_strings and action.choices is not None:
            yield from map(str, action.choices)


def _fish(parser: argparse.ArgumentParser) -> Iterator[str]:
    helps = {
        choice.dest: choice.help or ""
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for choice in action._choices_actions
    }
    yield "complete -c gristmill -f -n __fish_use_subcommand"
    for name, sub in _subparsers(parser):
        text = _quoted(helps.get(name))
        yield f"complete -c gristmill -n __fish_use_subcommand -a {name} -d {text}"
        for action in sub._actions:
            when = f"-n '__fish_seen_subcommand_from {name}'"
            for option in action.option_strings:
                kind = f"-l {option[2:]}" if option.startswith("--") else f"-s {option[1:]}"
                yield f"complete -c gristmill {when} {kind} -d {_quoted(action.help)}"
            if not action.option_strings and action.choices is not None:
                yield f"complete -c gristmill {when} -f -a '{' '.join(map(str, action.choices))}'"


def _quoted(text: str | None) -> str:
    plain = (text or "").replace("%%", "%").replace("\\", "").replace("'", "\\'")
    return f"'{plain}'"
