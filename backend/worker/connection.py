"""Talks to the server over HTTP: one token, one clock, and errors that say what to do next."""

from __future__ import annotations

import email.utils
import json
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx

from gristmill import protocol

PREFIX = "/api/v1/worker"
CONNECT, ANSWER = 10.0, 60.0  #: seconds to wait for a connection, and for an answer
SKEW_SEEN = 2.0  #: seconds by which clocks may differ unnoticed (HTTP dates are whole seconds)
FIRST_PAUSE, LONGEST_PAUSE = 0.2, 10.0


class Unreachable(Exception):
    """The server does not answer, or answers that it cannot now: try again."""


class Unauthorised(Exception):
    """The token is not taken: register again."""


class Fenced(Exception):
    """Another process registered under this worker's name: stop."""


class Refused(Exception):
    """The server does not take this request, and will not later."""


class Pauses:
    """How long to wait between tries: longer each time, and not all workers at once."""

    def __init__(self) -> None:
        self._next = FIRST_PAUSE

    def next(self) -> float:
        """Return the next pause in seconds."""
        pause = self._next * random.uniform(0.5, 1.0)  # noqa: S311 - only spreads the load
        self._next = min(self._next * 2, LONGEST_PAUSE)
        return pause

    def reset(self) -> None:
        """Start over, after a success."""
        self._next = FIRST_PAUSE


class Connection:
    """The server, as a worker sees it. Safe to use from several threads."""

    def __init__(self, server: str, transport: httpx.BaseTransport | None = None) -> None:
        self._client = httpx.Client(
            base_url=server,
            timeout=httpx.Timeout(ANSWER, connect=CONNECT),
            limits=httpx.Limits(max_connections=50),
            transport=transport,
        )
        self._lock = threading.Lock()
        self._token = ""
        self._skew = timedelta()

    def close(self) -> None:
        """Close all connections."""
        self._client.close()

    def use_token(self, token: str) -> None:
        """Send this token from now on."""
        with self._lock:
            self._token = token

    def now(self, at: float | None = None) -> str:
        """Return the time (or `at`, of our clock) by the server's; ours may be wrong by hours."""
        # the worker is the edge: nobody above hands it the time
        moment = datetime.fromtimestamp(time.time() if at is None else at, UTC) + self._skew
        return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def post(
        self, what: str, message: Any, *, token: str | None = None, wait: float = 0.0
    ) -> dict[str, Any]:
        """Send a message of the protocol; `wait` is how long the server may think about it."""
        timeout = httpx.Timeout(ANSWER + wait, connect=CONNECT)
        with _as_ours():
            answer = self._client.post(
                f"{PREFIX}/{what}",
                content=_encoded(message),
                headers={**self._headers(token), "Content-Type": "application/json"},
                timeout=timeout,
            )
        self.check(answer)
        try:
            found = answer.json()
        except ValueError as error:
            raise Unreachable(f"the answer to {what} is not JSON: {answer.text[:200]!r}") from error
        return found if isinstance(found, dict) else {}

    @contextmanager
    def stream(self, path: str, headers: Mapping[str, str]) -> Iterator[httpx.Response]:
        """Fetch something large, piece by piece."""
        with (
            _as_ours(),
            self._client.stream(
                "GET", f"{PREFIX}/{path}", headers={**self._headers(None), **headers}
            ) as answer,
        ):
            yield answer

    def head(self, path: str) -> httpx.Response:
        """Ask about something."""
        with _as_ours():
            return self._client.head(f"{PREFIX}/{path}", headers=self._headers(None))

    def put(self, path: str, params: Mapping[str, Any], body: Iterator[bytes]) -> httpx.Response:
        """Send something large, piece by piece."""
        with _as_ours():
            return self._client.put(
                f"{PREFIX}/{path}", params=dict(params), content=body, headers=self._headers(None)
            )

    def check(self, answer: httpx.Response) -> None:
        """Raise what an answer other than success means."""
        self._compare_clocks(answer)
        if answer.is_success:
            return
        said = problem(answer)
        if answer.status_code == httpx.codes.UNAUTHORIZED:
            raise Unauthorised(said)
        if answer.status_code == httpx.codes.CONFLICT:
            raise Fenced(said)
        if answer.status_code >= 500 or answer.status_code in (408, 425, 429):
            raise Unreachable(said)
        raise Refused(said)

    def _headers(self, token: str | None) -> dict[str, str]:
        with self._lock:
            return {"Authorization": f"Bearer {self._token if token is None else token}"}

    def _compare_clocks(self, answer: httpx.Response) -> None:
        try:
            told = email.utils.parsedate_to_datetime(answer.headers["date"])
        except (KeyError, ValueError):
            return
        if told.tzinfo is None:
            return
        skew = told - datetime.fromtimestamp(time.time(), UTC)
        self._skew = skew if abs(skew.total_seconds()) > SKEW_SEEN else timedelta()


def _encoded(message: Any) -> bytes:
    """Return a message as JSON; ASCII only, so that no text of a job can fail to be encoded."""
    try:
        return json.dumps(protocol.dump(message), allow_nan=False, separators=(",", ":")).encode()
    except (ValueError, TypeError, RecursionError) as error:
        raise Refused(f"it cannot be written as JSON: {error}") from error


@contextmanager
def _as_ours() -> Iterator[None]:
    try:
        yield
    except httpx.RequestError as error:
        raise Unreachable(f"{type(error).__name__}: {error}") from error


def problem(answer: httpx.Response) -> str:
    """Return what an error answer says, in one line."""
    try:
        answer.read()
        told = answer.json()
        detail = told.get("detail") or told.get("title")
    except (ValueError, AttributeError, httpx.HTTPError):
        detail = None
    return f"{answer.status_code}: {detail if isinstance(detail, str) else json.dumps(detail)}"
