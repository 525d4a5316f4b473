"""`connect`: from a URL, or from what is installed here, to a client.

`slurm`, `local`, `ssh://user@host:port/slurm?jump=gate&option=-i&option=key`; without the name of a
manager it is looked for, and without a URL it is looked for here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

from gristmill import registry, site
from gristmill.errors import BadValue, UnknownManager
from gristmill.journal import Journal
from gristmill.managers.base import Dialect
from gristmill.service import AsyncResourceManager, ResourceManager
from gristmill.transports.base import Transport
from gristmill.transports.local import LocalTransport

C = TypeVar("C", ResourceManager, AsyncResourceManager)


def connect(
    url: str | None = None,
    *,
    site: site.Site | str | Path | None = None,
    journal: Journal | str | Path | None = None,
    interval: float | None = None,
    **options: Any,
) -> ResourceManager:
    """A client for a manager here or elsewhere.

    `site` is a site file, `journal` a journal or the path of one, `interval` the seconds between
    polls. Raises UnknownManager when none of the name exists, BadValue for a URL of another kind.
    """
    return _client(ResourceManager, url, site, journal, interval, options)


def aconnect(
    url: str | None = None,
    *,
    site: site.Site | str | Path | None = None,
    journal: Journal | str | Path | None = None,
    interval: float | None = None,
    **options: Any,
) -> AsyncResourceManager:
    """As `connect`, for an event loop: `async with aconnect() as rm`."""
    return _client(AsyncResourceManager, url, site, journal, interval, options)


def _client(
    kind: type[C],
    url: str | None,
    given_site: site.Site | str | Path | None,
    journal: Journal | str | Path | None,
    interval: float | None,
    options: dict[str, Any],
) -> C:
    transport, name = read_url(url)
    dialect = registry.dialect(name) if name else detect(transport or LocalTransport())
    if isinstance(given_site, (str, Path)):
        given_site = site.load(given_site)
    if isinstance(journal, (str, Path)):
        journal = Journal(journal)
    return kind(
        dialect,
        transport or registry.default_transport(dialect),
        site=given_site,
        journal=journal,
        interval=interval,
        url=url or dialect.name,
        **options,
    )


def read_url(url: str | None) -> tuple[Transport | None, str | None]:
    """The transport (None: the manager's usual one here) and the manager (None: to be detected)."""
    if url is None:
        return None, None
    if "://" not in url:
        return None, url
    parts = urlsplit(url)
    if parts.scheme == "local":
        return None, parts.path.strip("/") or parts.netloc or None
    if parts.scheme != "ssh" or not parts.hostname:
        raise BadValue(
            f"{url!r} cannot be connected to; write 'slurm', or 'ssh://user@host:port/slurm'"
        )
    from gristmill.transports.ssh import SshTransport

    query = parse_qs(parts.query)
    jump = [host for value in query.get("jump", []) for host in value.split(",")]
    transport = SshTransport(
        parts.hostname,
        user=unquote(parts.username) if parts.username else None,
        port=parts.port,
        jump=jump,
        options=query.get("option", []),
    )
    return transport, parts.path.strip("/") or None


def detect(transport: Transport) -> Dialect:
    """The first manager whose commands are installed there; the local one when none is."""
    for name in registry.BUILT_IN:
        if name == "local":
            continue
        try:
            dialect = registry.dialect(name)
        except ModuleNotFoundError:
            continue
        if dialect.commands and all(transport.has(command) for command in dialect.commands):
            return dialect
    if not isinstance(transport, LocalTransport):
        raise UnknownManager(
            f"no manager is installed on {transport.name}; name one, as in ssh://host/slurm"
        )
    return registry.dialect("local")
