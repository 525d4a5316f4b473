"""Reads the server's answers into the protocol's types; what a newer server adds is left out."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from gristmill.protocol import (
    Assignment,
    HeartbeatReply,
    InputFile,
    Limits,
    PollReply,
    Registered,
    ReportsReply,
    StoredFile,
)

T = TypeVar("T")


class BadAnswer(Exception):
    """The server's answer is not what the protocol says."""


def registered(told: dict[str, Any]) -> Registered:
    """Read the answer to a registration."""
    return _plain(Registered, told, tuples=("forget",))


def heartbeat_reply(told: dict[str, Any]) -> HeartbeatReply:
    """Read the answer to a heartbeat."""
    return _plain(HeartbeatReply, told, tuples=("cancel",))


def reports_reply(told: dict[str, Any]) -> ReportsReply:
    """Read the answer to reports."""
    return _plain(ReportsReply, told, tuples=("answers", "cancel"))


def poll_reply(told: dict[str, Any]) -> PollReply:
    """Read the answer to a poll."""
    given = [_assignment(one) for one in told.get("assignments") or ()]
    return _plain(PollReply, {**told, "assignments": given}, tuples=("assignments", "cancel"))


def _assignment(told: dict[str, Any]) -> Assignment:
    try:
        inputs = tuple(
            InputFile(stored=_plain(StoredFile, one["stored"]), path=one["path"])
            for one in told.get("inputs") or ()
        )
        name, version = told["environment"]
        limits = _plain(Limits, told["limits"])
    except (KeyError, TypeError, ValueError) as error:
        raise BadAnswer(f"an assignment is not as the protocol says: {error!r}") from error
    given = {**told, "inputs": inputs, "environment": (name, version), "limits": limits}
    return _plain(Assignment, given)


def _plain(kind: type[T], told: dict[str, Any], tuples: tuple[str, ...] = ()) -> T:
    names = {field.name for field in dataclasses.fields(kind)}  # type: ignore[arg-type]
    given = {name: value for name, value in told.items() if name in names}
    for name in tuples:
        given[name] = tuple(given.get(name) or ())
    try:
        return kind(**given)
    except TypeError as error:
        raise BadAnswer(f"the server's answer lacks something: {error}") from error
