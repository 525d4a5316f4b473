"""Where the command keeps addresses of servers and the tokens for them.

One JSON file that only its owner may read: `$XDG_CONFIG_HOME/gristmill/servers.json`
(`~/.config/…`). `GRISTMILL_URL` and `GRISTMILL_TOKEN` go before it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gristmill.errors import GristmillError


class NoServer(GristmillError):
    """It is not known which server is meant, or there is no token for it."""


@dataclass(frozen=True, slots=True)
class Login:
    """A server, and the token for it."""

    url: str
    token: str = field(repr=False)


def file(variables: Mapping[str, str] = os.environ) -> Path:
    """Return the path of the file."""
    root = variables.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(root) / "gristmill" / "servers.json"


def login(url: str | None, variables: Mapping[str, str] = os.environ) -> Login:
    """Return the server to talk to: the one named, that of GRISTMILL_URL, or the last login's."""
    stored = _stored(file(variables))
    chosen = url or variables.get("GRISTMILL_URL") or stored.get("last")
    if not isinstance(chosen, str):
        raise NoServer("Which server? Run `gristmill login URL` first, or set GRISTMILL_URL")
    chosen = chosen.rstrip("/")
    tokens = stored.get("tokens")
    known = tokens if isinstance(tokens, dict) else {}
    token = variables.get("GRISTMILL_TOKEN") or known.get(chosen)
    if not isinstance(token, str):
        raise NoServer(f"There is no token for {chosen}: run `gristmill login {chosen}`")
    return Login(chosen, token)


def remember(one: Login, variables: Mapping[str, str] = os.environ) -> Path:
    """Keep a login; it is the one meant from now on when no server is named."""
    path = file(variables)
    stored = _stored(path)
    tokens = stored.get("tokens")
    known = tokens if isinstance(tokens, dict) else {}
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    partial = path.with_suffix(".partial")
    partial.unlink(missing_ok=True)
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        json.dump({"last": one.url, "tokens": {**known, one.url: one.token}}, out, indent=2)
    partial.replace(path)
    return path


def _stored(path: Path) -> dict[str, object]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise NoServer(f"{path} cannot be read ({error}): run `gristmill login URL`") from None
    return found if isinstance(found, dict) else {}
