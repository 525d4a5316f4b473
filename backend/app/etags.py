"""Edits that do not overwrite what somebody else wrote meanwhile: ETag and If-Match.

thing = await load_for_update(...)          # SELECT … FOR UPDATE
etags.require(if_match, thing.revision)     # 428 absent, 412 stale
…; thing.revision += 1
etags.put(response, thing.revision)
"""

from __future__ import annotations

from typing import Annotated, Protocol, TypeVar

from fastapi import Header, Response

from backend.app import problems


class _HasRevision(Protocol):
    @property
    def revision(self) -> int: ...


Revised = TypeVar("Revised", bound=_HasRevision)

IfMatch = Annotated[
    str | None,
    Header(
        max_length=200,
        description="the ETag of what you edit; without it 428, with an old one 412",
    ),
]


def etag(revision: int) -> str:
    """Return the ETag of a revision."""
    return f'"{revision}"'


def put(response: Response, revision: int) -> None:
    """Put the ETag on an answer."""
    response.headers["ETag"] = etag(revision)


def tagged(response: Response, view: Revised) -> Revised:
    """Put the ETag of what is shown on its answer, and return it."""
    put(response, view.revision)
    return view


def require(if_match: str | None, revision: int) -> None:
    """Raise NoPrecondition without an If-Match, Stale when it names other revisions only."""
    if if_match is None:
        raise problems.NoPrecondition(
            f"send If-Match with the ETag of what you edit (now {etag(revision)})"
        )
    given = {part.strip().removeprefix("W/") for part in if_match.split(",")}
    if etag(revision) not in given:
        raise problems.Stale(
            f"this is at revision {etag(revision)}, not {if_match}: look at it again first",
            headers={"ETag": etag(revision)},
        )
