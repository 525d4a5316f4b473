"""What happens to every request before it has a route. Pure ASGI: nothing here buffers.

From outside to inside: request id, log line, metrics and the last catch (`RequestContext`);
headers of every answer (`SecurityHeaders`); names by which we may be called (`AllowedHosts`);
requests that another site's page made a browser send (`SameOrigin`); size of bodies
(`BodyLimits`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from backend.app import errors, problems
from backend.app.db.ids import uuid7
from backend.app.metrics import Metrics
from backend.app.settings import Settings

log = structlog.stdlib.get_logger("gristmill.http")

API = "/api/v1"
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_REQUEST_ID = re.compile(r"[A-Za-z0-9._-]{8,64}\Z")

CONTENT_SECURITY_POLICY = "; ".join(
    [
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "worker-src 'self' blob:",
        "font-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    ]
)
HEADERS = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}


class RequestContext:
    """Give every request an id, a line in the log, and an answer even when we fail."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request, socket or lifespan."""
        if scope["type"] == "lifespan":
            return await self.app(scope, receive, send)
        request_id = _request_id(Headers(scope=scope))
        scope.setdefault("state", {})["request_id"] = request_id
        with structlog.contextvars.bound_contextvars(request_id=request_id):
            if scope["type"] == "websocket":
                return await self.app(scope, receive, send)
            return await self._http(scope, receive, send, request_id)

    async def _http(self, scope: Scope, receive: Receive, send: Send, request_id: str) -> None:
        started, status = time.perf_counter(), 0

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-ID"] = request_id
            await send(message)

        try:
            await self.app(scope, receive, send_with_id)
        except Exception:
            log.exception("unexpected error", method=scope["method"], path=scope["path"])
            if status == 0:
                await errors.internal(scope)(scope, receive, send_with_id)
        finally:
            self._count(scope, status, time.perf_counter() - started)

    def _count(self, scope: Scope, status: int, seconds: float) -> None:
        route = _template(scope)
        self.metrics.requests.labels(scope["method"], route, status).inc()
        self.metrics.seconds.labels(route).observe(seconds)
        log.info(
            "answered",
            method=scope["method"],
            path=scope["path"],
            route=route,
            status=status,
            seconds=round(seconds, 4),
        )


def _template(scope: Scope) -> str:
    """Return the route's template; FastAPI leaves out the prefix of the router that holds it."""
    path: str = getattr(scope.get("route"), "path", "none")
    api = scope["path"].startswith(API) and not path.startswith(API)
    return API + path if api and path != "none" else path


def _request_id(headers: Headers) -> str:
    given = headers.get("x-request-id", "")
    return given if _REQUEST_ID.match(given) else str(uuid7())


class SecurityHeaders:
    """Put the headers on every answer; a route that needs another value sets it itself."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        if scope["type"] != "http":
            return await self.app(scope, receive, send)
        api = scope["path"].startswith("/api/")

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                if api:
                    headers.setdefault("Cache-Control", "no-store")
            await send(message)

        await self.app(scope, receive, send_with_headers)
        return None


class AllowedHosts:
    """Answer only to our own names: against DNS rebinding."""

    def __init__(self, app: ASGIApp, hosts: frozenset[str]) -> None:
        self.app = app
        self.hosts = hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request or socket."""
        if scope["type"] == "lifespan" or self._allowed(Headers(scope=scope)):
            return await self.app(scope, receive, send)
        problem = problems.Malformed(
            "this server does not answer to the name in the Host header; its administrator can "
            "add it to GRISTMILL_ALLOWED_HOSTS",
            code="unknown_host",
        )
        return await _refuse(scope, receive, send, problem)

    def _allowed(self, headers: Headers) -> bool:
        return "*" in self.hosts or host_name(headers.get("host", "")) in self.hosts


def host_name(host: str) -> str:
    """Return the Host header without its port, lower case: "[::1]:80" -> "[::1]"."""
    return re.sub(r":\d*\Z", "", host.strip().lower())


class SameOrigin:
    """Refuse what another site's page made a browser send in our user's name.

    A cookie is sent along by the browser, whoever wrote the page; so a request that changes
    something and is signed by a cookie must prove that it comes from our own pages. Bearer tokens
    are not sent along, and need no proof.
    """

    def __init__(self, app: ASGIApp, origins: Sequence[str] = ()) -> None:
        self.app = app
        self.origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request or socket."""
        if scope["type"] == "lifespan" or self._fine(scope):
            return await self.app(scope, receive, send)
        problem = problems.Forbidden(
            "this request does not come from a page of this server (Origin, Sec-Fetch-Site); "
            "scripts use a token instead of the cookie",
            code="cross_origin",
        )
        return await _refuse(scope, receive, send, problem)

    def _fine(self, scope: Scope) -> bool:
        headers = Headers(scope=scope)
        if scope["type"] == "http" and scope["method"] in SAFE_METHODS:
            return True
        if "authorization" in headers:
            return True
        verdict = same_origin(headers, self.origins)
        return verdict if verdict is not None else "cookie" not in headers


def same_origin(headers: Headers, origins: frozenset[str] = frozenset()) -> bool | None:
    """Tell whether a request comes from a page of ours; None when nothing says so or otherwise.

    Every header that is there must agree. `Sec-Fetch-Site: none` is a person's own doing
    (address bar), and no page can make a browser send it.
    """
    origin, site = headers.get("origin"), headers.get("sec-fetch-site")
    if origin is not None and origin in origins:
        return True
    verdicts = []
    if site is not None:
        verdicts.append(site in {"same-origin", "none"})
    if origin is not None:
        verdicts.append(_origin_is_host(origin, headers.get("host", "")))
    return all(verdicts) if verdicts else None


def _origin_is_host(origin: str, host: str) -> bool:
    try:
        parsed = urlsplit(origin)
    except ValueError:
        return False
    return parsed.scheme in {"http", "https"} and parsed.netloc.lower() == host.strip().lower()


@dataclass(frozen=True, slots=True)
class BodyLimit:
    """How many bytes the bodies of some requests may have; None: the route counts by itself."""

    method: str
    path: re.Pattern[str]
    limit: int | None


def body_limits(settings: Settings) -> tuple[BodyLimit, ...]:
    """Return the exceptions from `settings.body_limit`."""
    file = re.compile(r"/api/v1/databases/[^/]+/[^/]+/files/.+")
    output = re.compile(r"/api/v1/worker/attempts/[^/]+/outputs/.+")
    worker = re.compile(r"/api/v1/worker/[a-z]+")
    return (
        BodyLimit("PUT", file, settings.upload_limit),
        BodyLimit("PUT", output, None),
        BodyLimit("POST", worker, settings.worker_body_limit),
    )


class BodyLimits:
    """Refuse a body that is too large: by its announced length, else while it comes in."""

    def __init__(self, app: ASGIApp, default: int, exceptions: Sequence[BodyLimit]) -> None:
        self.app = app
        self.default = default
        self.exceptions = exceptions

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one request."""
        limit = self._limit(scope) if scope["type"] == "http" else None
        if limit is None:
            return await self.app(scope, receive, send)
        announced = Headers(scope=scope).get("content-length", "0")
        if not announced.isdigit() or int(announced) > limit:
            return await _refuse(scope, receive, send, problems.TooLarge(_too_large(limit)))
        return await self.app(scope, _counting(receive, limit), send)

    def _limit(self, scope: Scope) -> int | None:
        for rule in self.exceptions:
            if rule.method == scope["method"] and rule.path.fullmatch(scope["path"]):
                return rule.limit
        return self.default


def _too_large(limit: int) -> str:
    return f"the body is larger than the {limit:,} bytes that are taken here"


def _counting(receive: Receive, limit: int) -> Receive:
    received = 0

    async def counted() -> Message:
        nonlocal received
        message = await receive()
        received += len(message.get("body", b""))
        if received > limit:
            raise HTTPException(413, _too_large(limit))  # passes through FastAPI's body reader
        return message

    return counted


async def _refuse(
    scope: Scope, receive: Receive, send: Send, problem: problems.RequestProblem
) -> None:
    if scope["type"] == "websocket":
        await receive()  # the connect message
        await send({"type": "websocket.close", "code": 4403, "reason": problem.code})
        return
    response = errors.problem_response(scope, problem)
    response.headers["Connection"] = "close"  # the rest of the body is not read
    await response(scope, receive, send)
