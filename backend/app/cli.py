"""`python -m backend.app`: serve, migrate, create-admin, openapi. `gristmill server` calls it."""

from __future__ import annotations

import argparse
import asyncio
import secrets
import signal
import socket
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import structlog
import uvicorn
from pydantic import SecretStr, ValidationError

from backend.app import embedded_postgres, logs
from backend.app.db import engine, migrations
from backend.app.db.engine import Engines
from backend.app.main import create_app
from backend.app.openapi import written
from backend.app.settings import Settings

log = structlog.stdlib.get_logger(__name__)

GRACE_SECONDS = 5  #: for answers under way when we are told to stop


class Failure(Exception):
    """What the person at the terminal must know."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit status."""
    arguments = _parser().parse_args(argv)
    try:
        settings = _settings(arguments)
        arguments.run(settings, arguments)
    except (Failure, embedded_postgres.CannotStart, migrations.WrongRevision, OSError) as error:
        sys.stderr.write(f"gristmill: {error}\n")
        return 1
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gristmill server", description="The Gristmill server.")
    commands = parser.add_subparsers(metavar="COMMAND")
    serve = commands.add_parser(
        "serve", help="run the server: what is done when no command is named"
    )
    for place in (parser, serve):
        place.add_argument(
            "--host",
            default=argparse.SUPPRESS,
            help="address to listen on (GRISTMILL_HOST; 127.0.0.1)",
        )
        place.add_argument(
            "--port",
            type=int,
            default=argparse.SUPPRESS,
            help="port, 0 for a free one (GRISTMILL_PORT; 8000)",
        )
    parser.set_defaults(run=_serve)
    migrate = commands.add_parser("migrate", help="bring the database to this version's schema")
    migrate.set_defaults(run=_migrate)
    admin = commands.add_parser(
        "create-admin",
        help="make an administrator; the password comes from standard input, "
        "or is made and printed once",
    )
    admin.add_argument("username")
    admin.add_argument("--email", default="")
    admin.add_argument(
        "--if-missing", action="store_true", help="change nothing when there is such a user"
    )
    admin.set_defaults(run=_create_admin)
    openapi = commands.add_parser("openapi", help="print the API's description")
    openapi.set_defaults(run=_openapi)
    for place in (parser, serve, migrate, admin, openapi):  # before the command, or behind it
        place.add_argument(
            "--data",
            type=Path,
            default=argparse.SUPPRESS,
            help="data folder (GRISTMILL_DATA; .gristmill)",
        )
    return parser


def _settings(arguments: argparse.Namespace) -> Settings:
    try:
        settings = Settings()
    except ValidationError as error:
        places = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise Failure(f"settings (GRISTMILL_…): {places}") from None
    given = {
        name: value
        for name in ("data", "host", "port")
        if (value := getattr(arguments, name, None)) is not None
    }
    return settings.model_copy(update=given)


# ---- the database -------------------------------------------------------------------------


@contextmanager
def database(settings: Settings, *, shared: bool = False) -> Iterator[Settings]:
    """Give settings whose `database_url` is set; starts an embedded server if none is named.

    `shared`: where a running Gristmill server has started it already, use that one.
    """
    if settings.database_url is not None:
        yield settings
        return
    try:
        server = embedded_postgres.start(settings.data / "postgres")
    except embedded_postgres.Busy as busy:
        if not shared:
            raise
        yield _with_url(settings, busy.url)
        return
    try:
        yield _with_url(settings, server.url())
    finally:
        server.stop()


def _with_url(settings: Settings, url: str) -> Settings:
    return settings.model_copy(update={"database_url": SecretStr(url)})


@asynccontextmanager
async def _engines(settings: Settings) -> AsyncIterator[Engines]:
    assert settings.database_url is not None
    try:
        engines = engine.connect(settings.database_url.get_secret_value())
    except ValueError as error:
        raise Failure(str(error)) from None
    try:
        yield engines
    finally:
        await engines.dispose()


async def _upgrade(settings: Settings, *, only_if_empty: bool) -> None:
    async with _engines(settings) as engines:
        if not only_if_empty or await migrations.current(engines.background) is None:
            await migrations.upgrade(engines.background)
        await migrations.require_head(engines.background)


def _migrate(settings: Settings, _arguments: argparse.Namespace) -> None:
    with database(settings, shared=True) as ready:
        asyncio.run(_upgrade(ready, only_if_empty=False))
        _say(f"the database is at revision {migrations.head()}")


# ---- serving ------------------------------------------------------------------------------


def _serve(settings: Settings, _arguments: argparse.Namespace) -> None:
    logs.configure(level=settings.log_level, as_json=settings.log_json)
    for number in (signal.SIGTERM, signal.SIGINT):
        # uvicorn ends in order and then raises the signal again: our database must end, too
        signal.signal(number, _leave)
    settings.data.mkdir(parents=True, exist_ok=True)
    with _listening(settings) as listener, database(settings) as ready:
        # an embedded database is ours to upgrade; another's only when it is empty
        asyncio.run(_upgrade(ready, only_if_empty=settings.database_url is not None))
        host, port = listener.getsockname()[:2]
        _run(ready, listener, f"http://{f'[{host}]' if ':' in host else host}:{port}")


def _leave(_number: int, _frame: object) -> None:
    raise SystemExit(0)


@contextmanager
def _listening(settings: Settings) -> Iterator[socket.socket]:
    """Take the port first: a second server must fail before it touches anything."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((settings.host, settings.port))
        except OSError as error:
            raise Failure(
                f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; "
                "choose another with --port"
            ) from None
        listener.set_inheritable(False)
        yield listener


class _Server(uvicorn.Server):
    """Says where it listens once it does; whoever started us waits for that line."""

    def __init__(self, config: uvicorn.Config, url: str) -> None:
        super().__init__(config)
        self._url = url

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, then print the address on standard output."""
        await super().startup(sockets)
        if self.started:
            _say(f"Gristmill listens on {self._url}")

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End on a signal, but not by it: uvicorn raises it again, before the database is ended."""
        with super().capture_signals():
            yield
            self._captured_signals.clear()


def _run(settings: Settings, listener: socket.socket, url: str) -> None:
    log.info("settings", **settings.public())
    config = uvicorn.Config(
        create_app(settings),
        loop="uvloop" if sys.platform != "win32" else "asyncio",
        http="httptools",
        ws="websockets-sansio",
        ws_per_message_deflate=False,
        ws_max_size=64 * 1024,
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    server = _Server(config, url)
    server.run(sockets=[listener])
    if not server.started:
        raise Failure("the server did not start; the log above says why")


# ---- others -------------------------------------------------------------------------------


def _create_admin(settings: Settings, arguments: argparse.Namespace) -> None:
    from backend.app.users import bootstrap  # argon2 is not needed to serve --help

    given = "" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.readline().rstrip("\n")
    password = given or secrets.token_urlsafe(12)

    async def create(ready: Settings) -> None:
        await _upgrade(ready, only_if_empty=True)
        async with _engines(ready) as engines:
            await bootstrap.create_admin(
                engines, username=arguments.username, email=arguments.email, password=password
            )

    with database(settings, shared=True) as ready:
        try:
            asyncio.run(create(ready))
        except bootstrap.Taken as error:
            if not arguments.if_missing:
                raise Failure(str(error)) from None
            return
        except bootstrap.Refused as error:
            raise Failure(str(error)) from None
    _say(f"administrator {arguments.username!r} made")
    if not given:
        _say(f"password (shown once): {password}")


def _openapi(settings: Settings, _arguments: argparse.Namespace) -> None:
    sys.stdout.write(written(create_app(settings).openapi()))


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
