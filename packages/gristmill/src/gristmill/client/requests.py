"""What is sent, and what may be sent again; no network."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit
from uuid import UUID

from gristmill import prefixes
from gristmill.client import errors
from gristmill.errors import BadValue
from gristmill.prefixes import Declared

API = "/api/v1"
MOST_TRIES = 5
LONGEST_PAUSE = 30.0  #: seconds between two tries

_ALWAYS_SAFE = frozenset({"GET", "HEAD", "PUT"})  # DELETE is not: it may have been another's turn


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A call of the API."""

    method: str
    path: str  #: below /api/v1
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Any = None  #: sent as JSON
    form: Mapping[str, str] | None = None
    file: Path | None = None  #: sent as it is
    headers: Mapping[str, str] = field(default_factory=dict)
    wait: float = 0.0  #: seconds that the server may take on purpose (long polls)

    @property
    def repeatable(self) -> bool:
        """Whether sending it twice does no more than sending it once."""
        return self.method in _ALWAYS_SAFE or "Idempotency-Key" in self.headers


def pause(tries: int, retry_after: str | None) -> float:
    """Return how long to wait before the next try, in seconds."""
    if retry_after and retry_after.isdigit():
        return min(float(retry_after), LONGEST_PAUSE)
    return min(0.2 * 2.0**tries, LONGEST_PAUSE)


def again(request: Request, status: int) -> bool:
    """Tell whether an answer says to come back: busy, or a proxy without a server behind it."""
    return status == 429 or (status in (502, 503, 504) and request.repeatable)


def base_url(url: str) -> str:
    """Return the server's address without a slash at the end. Raises BadValue."""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise BadValue(f"{url!r} is no address of a server: it begins with http:// or https://")
    if parts.username or parts.password:
        raise BadValue("the address of the server holds a password: sign in instead")
    return url.rstrip("/")


def path_of(kind: str, ref: str) -> str:
    """Return the path of something declared."""
    return f"/{kind}/" + "/".join(quote(part, safe="") for part in ref.split("/"))


def declare(one: Declared, visibility: str) -> Request:
    """Return the call that declares something."""
    *_, name, version = one.ref.split("/")
    body = {"name": name, "version": int(version), "visibility": visibility, **content(one)}
    return Request(method="POST", path=f"/{one.kind}", body=body)


def content(one: Declared) -> dict[str, Any]:
    """Return what a declaration holds, as the API takes it."""
    body: dict[str, Any] = {"declaration": one.declaration, "documentation": one.documentation}
    if one.kind == "libraries":
        body["files"] = dict(one.files)
    elif one.kind in ("algorithms", "databases"):
        body["source"] = one.source
    return body


def differences(one: Declared, there: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a declaration is not so on the server."""
    return {
        key: value
        for key, value in content(one).items()
        if _canonical(value) != _canonical(there.get(key) or type(value)())
    }


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def sha256(path: Path) -> str:
    """Return the hash of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def owned(folder: str | Path, owner: str) -> prefixes.Prefix:
    """Read a prefix as one that belongs to `owner`."""
    return prefixes.owned_by(prefixes.read_prefix(Path(folder)), owner)


def in_order(prefix: prefixes.Prefix) -> list[Declared]:
    """Return a prefix's declarations, each after what it refers to."""
    return prefixes.in_order(prefix)


def refuse_different(refs: list[str], update: bool) -> None:
    """Raise Conflict for versions that are on the server with other content."""
    if refs and not update:
        these = ", ".join(refs)
        detail = (
            f"On the server these hold something else: {these}. Raise their versions, or update "
            "them where no experiment has used them yet"
        )
        raise errors.Conflict(409, detail, code="different")


def experiment(
    name: str,
    toolchain: str,
    declaration: Mapping[str, Any],
    description: str,
    visibility: str,
) -> dict[str, Any]:
    """Return the body that describes an experiment."""
    return {
        "name": name,
        "toolchain": toolchain,
        "declaration": declaration,
        "description": description,
        "visibility": visibility,
    }


def is_id(text: str) -> bool:
    """Tell whether a text is an id, rather than a name."""
    try:
        return str(UUID(text)) == text.lower()
    except ValueError:
        return False


def path_id(text: str) -> str:
    """Return an id as a path may hold it."""
    return quote(text, safe="")
