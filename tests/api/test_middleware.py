"""What happens to every request: errors as problems, headers, hosts, sizes, logs, health."""

from __future__ import annotations

import json
import logging
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
import structlog
from fastapi import FastAPI
from sqlalchemy import func, select
from sqlalchemy.ext.asyncio import AsyncSession
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from backend.app import housekeeping, idempotency, logs, static
from backend.app.db.tables import DataFormat, IdempotencyKey, RefreshToken
from backend.app.main import create_app
from backend.app.services import Services
from backend.app.settings import Settings
from backend.app.users.schemas import MyChange
from tests.people import API, BASE_URL, People


def _is_problem(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert document["status"] == status
    assert document["code"] == code
    assert document["detail"]
    assert document["title"]
    assert document["type"].endswith(f"/{code}")
    assert document["request_id"] == answer.headers["x-request-id"]
    return document


# ---- errors -------------------------------------------------------------------------------


async def test_a_path_that_is_not_there(client: httpx.AsyncClient) -> None:
    document = _is_problem(await client.get("/api/v1/nothing"), 404, "not_found")
    assert document["instance"] == "/api/v1/nothing"


async def test_a_path_that_is_not_there_has_no_methods(client: httpx.AsyncClient) -> None:
    for method in ("PUT", "POST", "DELETE", "OPTIONS"):
        _is_problem(await client.request(method, "/api/v1/nothing"), 404, "not_found")


async def test_a_method_that_is_not_there(client: httpx.AsyncClient) -> None:
    answer = await client.put(f"{API}/users")
    document = _is_problem(answer, 405, "method_not_allowed")
    assert answer.headers["allow"]
    assert "PUT" in document["detail"]


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"{", 400, "malformed"),
        (b"\xff", 400, "malformed"),
        (b"", 422, "invalid"),
        (b"[" * 100_000, 422, "invalid"),
        (b"[" * 50 + b"]" * 50, 422, "invalid"),
        (b'{"name": "x", "name": "y"}', 422, "invalid"),
        (b'{"name": NaN}', 422, "invalid"),
        (b'{"name": "\\u0000"}', 422, "invalid"),
        (b'{"name": "\\ud800"}', 422, "invalid"),
        (b'{"version": ' + b"9" * 5000 + b"}", 422, "invalid"),
        (b'{"version": 1e400}', 422, "invalid"),
        (b"null", 422, "invalid"),
        (b'{"name": "x", "declaration": {}, "surprise": 1}', 422, "invalid"),
    ],
)
async def test_bodies_that_are_not_taken(
    people: People, session: AsyncSession, content: bytes, status: int, code: str
) -> None:
    bo = await people.user("bo")
    headers = {"Content-Type": "application/json"}
    answer = await bo.client.post("/dataformats", content=content, headers=headers)
    _is_problem(answer, status, code)
    assert await session.scalar(select(func.count()).select_from(DataFormat)) == 0


async def test_an_error_names_the_place_and_does_not_repeat_a_password(people: People) -> None:
    admin = await people.admin()
    body = {"username": "bo", "password": "short!", "reputation": "x"}
    document = _is_problem(await admin.client.post("/users", json=body), 422, "invalid")
    assert [error["pointer"] for error in document["errors"]] == ["/password", "/reputation"]
    assert "short!" not in json.dumps(document)


async def test_a_wrong_query_is_told_by_name(people: People) -> None:
    bo = await people.user("bo")
    for value in ("0", "201", "x", "-1", "9" * 30):
        answer = await bo.client.get("/queues", params={"limit": value})
        document = _is_problem(answer, 422, "invalid")
        assert document["errors"][0]["pointer"] == "query.limit"


@pytest.mark.parametrize("cursor", ["x", "AAAA", "=", "é", "x" * 1999])
async def test_a_cursor_that_is_none(people: People, cursor: str) -> None:
    bo = await people.user("bo")
    answer = await bo.client.get("/queues", params={"cursor": cursor})
    document = _is_problem(answer, 422, "invalid")
    assert document["errors"][0]["pointer"] == "query.cursor"


async def test_nul_in_a_query_or_path_is_no_fault_of_ours(people: People) -> None:
    bo = await people.user("bo")
    for path in ("/dataformats?q=%00", "/dataformats?owner=a%00", "/dataformats/%00/x/1"):
        answer = await bo.client.get(path)
        assert answer.status_code in {400, 404, 422}, path
        assert answer.headers["content-type"] == "application/problem+json"


async def test_our_own_fault_is_a_500_without_a_trace(
    app: FastAPI, client: httpx.AsyncClient
) -> None:
    async def broken(_: Request) -> Response:
        raise RuntimeError("the secret of the trace")

    app.router.routes.insert(0, Route("/api/v1/broken", broken))
    document = _is_problem(await client.get(f"{API}/broken"), 500, "internal")
    assert "secret" not in json.dumps(document)


# ---- sizes --------------------------------------------------------------------------------


async def test_a_body_that_says_it_is_too_large(client: httpx.AsyncClient) -> None:
    headers = {"Content-Length": str(200 * 1024 * 1024), "Content-Type": "application/json"}
    answer = await client.post(f"{API}/users", content=b"", headers=headers)
    _is_problem(answer, 413, "too_large")


async def test_a_body_that_turns_out_too_large(people: People, settings: Settings) -> None:
    async def chunks() -> Any:
        yield b'{"name": "'
        for _ in range(settings.body_limit // 65536 + 1):
            yield b"x" * 65536

    bo = await people.user("bo")
    headers = {"Content-Type": "application/json"}
    answer = await bo.client.post("/dataformats", content=chunks(), headers=headers)
    _is_problem(answer, 413, "too_large")


@pytest.mark.parametrize("length", ["-1", "x", "1e3", "0x10", "9" * 50])
async def test_a_length_that_is_no_length(client: httpx.AsyncClient, length: str) -> None:
    answer = await client.post(f"{API}/users", content=b"", headers={"Content-Length": length})
    _is_problem(answer, 413, "too_large")


# ---- headers and hosts --------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/me", "/nothing", "/api/v1/openapi.json"])
async def test_every_answer_has_the_headers(client: httpx.AsyncClient, path: str) -> None:
    answer = await client.get(path)
    policy = answer.headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["x-frame-options"] == "DENY"
    assert answer.headers["referrer-policy"] == "no-referrer"
    assert "access-control-allow-origin" not in answer.headers
    if path.startswith("/api/"):
        assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost", 200),
        ("LOCALHOST:8000", 200),
        ("127.0.0.1:1", 200),
        ("[::1]:8000", 200),
        ("evil.example", 400),
        ("localhost.evil.example", 400),
        ("localhost:80@evil.example", 400),
        ("", 400),
    ],
)
async def test_only_our_own_names(client: httpx.AsyncClient, host: str, status: int) -> None:
    answer = await client.get("/healthz", headers={"Host": host})
    assert answer.status_code == status
    if status == 400:
        _is_problem(answer, 400, "unknown_host")


@pytest.mark.parametrize(
    ("given", "kept"),
    [("abcdefgh-1", True), ("x", False), ("a b c d e f", False), ("a" * 65, False)],
)
async def test_a_request_id_is_kept_when_it_is_one(
    client: httpx.AsyncClient, given: str, kept: bool
) -> None:
    answer = await client.get("/healthz", headers={"X-Request-ID": given})
    assert (answer.headers["x-request-id"] == given) is kept


# ---- logs ---------------------------------------------------------------------------------


def test_logs_hold_no_secrets(capsys: pytest.CaptureFixture[str]) -> None:
    logs.configure(level="INFO", as_json=True)
    token = "gristmill_pat_" + "a" * 49
    structlog.stdlib.get_logger("x").info(
        f"said {token}", password="hunter2", headers={"Authorization": "Bearer abc"}, n=1
    )
    logging.getLogger("y").warning("to postgresql://bo:hunter2@host/db and eyJhbGciOi.eyJzdWIi.sig")
    written = capsys.readouterr().err
    logs.configure(level="WARNING", as_json=True)
    for secret in (token, "hunter2", "Bearer abc", "eyJhbGciOi"):
        assert secret not in written
    first, second = (json.loads(line) for line in written.splitlines())
    assert first["n"] == 1
    assert first["logger"] == "x"
    assert second["event"].startswith("to postgresql://***@host")


async def test_a_line_of_the_log_has_the_requests_id(
    client: httpx.AsyncClient, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.configure(level="INFO", as_json=True)
    answer = await client.get("/healthz")
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    logs.configure(level="WARNING", as_json=True)
    (line,) = [line for line in lines if line["event"] == "answered"]
    assert line["request_id"] == answer.headers["x-request-id"]
    assert (line["route"], line["status"]) == ("/healthz", 200)


# ---- health and metrics -------------------------------------------------------------------


async def test_health_and_readiness(client: httpx.AsyncClient) -> None:
    assert (await client.get("/healthz")).json() == {"status": "ok"}
    assert (await client.get("/readyz")).json()["status"] == "ready"


async def test_it_is_not_ready_without_its_scheduler(
    client: httpx.AsyncClient, services: Services
) -> None:
    await services.scheduler.stop()
    _is_problem(await client.get("/readyz"), 503, "scheduler")
    assert (await client.get("/healthz")).is_success


async def test_metrics_have_templates_and_no_paths(
    people: People, client: httpx.AsyncClient
) -> None:
    bo = await people.user("bo")
    await bo.client.get("/dataformats/bo/a-name-of-mine/1")
    written = (await client.get("/metrics")).text
    assert 'route="/api/v1/dataformats/{owner}/{name}/{version}",status="404"' in written
    assert "a-name-of-mine" not in written


async def test_metrics_are_not_for_everybody(client: httpx.AsyncClient, services: Services) -> None:
    forwarded = {"X-Forwarded-For": "192.0.2.1"}
    _is_problem(await client.get("/metrics", headers=forwarded), 401, "unauthenticated")
    secret = Settings(metrics_token="scrape").metrics_token
    services.settings = services.settings.model_copy(update={"metrics_token": secret})
    assert (await client.get("/metrics")).status_code == 401
    headers = {"Authorization": "Bearer scrape"}
    assert (await client.get("/metrics", headers=headers)).is_success


# ---- idempotency, housekeeping ------------------------------------------------------------


async def test_an_idempotency_key_gives_the_same_answer_again(
    session: AsyncSession, people: People, services: Services
) -> None:
    bo = await people.user("bo")
    body, now = MyChange(email="a@b"), services.clock()
    first = await idempotency.begin(session, bo.id, "k", body, now)
    assert first.answer is None
    await first.answered(201, MyChange(email="answer@b"))
    await session.commit()
    again = await idempotency.begin(session, bo.id, "k", body, now)
    assert (again.status, again.answer) == (201, {"email": "answer@b"})
    with pytest.raises(Exception, match="another request"):
        await idempotency.begin(session, bo.id, "k", MyChange(email="other@b"), now)


async def test_housekeeping_forgets_what_is_over(
    session: AsyncSession, people: People, services: Services
) -> None:
    bo = await people.user("bo")
    now = services.clock()
    await idempotency.begin(session, bo.id, "k", MyChange(email=""), now)
    await session.commit()
    assert await housekeeping.run_once(services.background, now) == 0
    later = now + timedelta(days=2)
    assert await housekeeping.run_once(services.background, later) == 1
    assert await session.scalar(select(func.count()).select_from(IdempotencyKey)) == 0
    far = now + timedelta(days=40)
    assert await housekeeping.run_once(services.background, far) == 1
    assert await session.scalar(select(func.count()).select_from(RefreshToken)) == 0


# ---- the page -----------------------------------------------------------------------------


@pytest.fixture
def page(tmp_path: Path) -> FastAPI:
    root = tmp_path / "dist"
    (root / "assets").mkdir(parents=True)
    (root / "index.html").write_text("<!doctype html>the page")
    (root / "assets" / "a.js").write_text("1")
    (tmp_path / "secret").write_text("secret")
    app = create_app(Settings())
    app.router.routes[:] = [r for r in app.router.routes if getattr(r, "name", "") != "page"]
    static.install(app, root.resolve())
    return app


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [
        ("/", 200, "the page"),
        ("/experiments/1", 200, "the page"),
        ("/assets/a.js", 200, "1"),
        ("/assets/b.js", 404, ""),
        ("/api/v1/nothing", 404, ""),
        ("/healthz/x", 404, ""),
        ("/..%2fsecret", 200, "the page"),
        ("/%2e%2e/secret", 200, "the page"),
        ("/assets/..%2f..%2fsecret", 404, ""),
        ("/a%00", 200, "the page"),
    ],
)
async def test_the_page_is_served(page: FastAPI, path: str, status: int, text: str) -> None:
    transport = httpx.ASGITransport(page)
    async with httpx.AsyncClient(transport=transport, base_url=BASE_URL) as client:
        answer = await client.get(path, headers={"Accept": "text/html"})
    assert answer.status_code == status
    assert text in answer.text
    assert "secret" not in answer.text.replace("/secret", "")
