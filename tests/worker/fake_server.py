"""A server that speaks the worker protocol over real HTTP and remembers what it hears."""

from __future__ import annotations

import hashlib
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse

from gristmill.protocol import Assignment

CREDENTIAL = "credential-of-the-worker"


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@dataclass
class FakeServer:
    """Hands out `assignments`, keeps `reports`, and can be made to misbehave."""

    cache: Path
    port: int = field(default_factory=free_port)
    heartbeat_seconds: float = 0.2
    assignments: list[Assignment] = field(default_factory=list)
    reports: list[dict[str, Any]] = field(default_factory=list)
    registrations: list[dict[str, Any]] = field(default_factory=list)
    heartbeats: list[dict[str, Any]] = field(default_factory=list)
    cancel: set[str] = field(default_factory=set)
    forget: tuple[str, ...] = ()
    drain: bool = False
    fenced: bool = False
    tokens: set[str] = field(default_factory=set)
    ranges: list[str | None] = field(default_factory=list)  #: of downloads
    uploads: dict[str, bytes] = field(default_factory=dict)
    cut_after: int | None = None  #: break each download, or upload, after so many bytes
    broken: bool = False  #: answer everything with 503
    refuse: Callable[[dict[str, Any]], bool] = lambda _: False  #: reports that it cannot read
    refuse_all_reports: bool = False  #: answer reports with 503
    stale: set[str] = field(default_factory=set)
    date: str | None = None
    change: threading.Condition = field(default_factory=threading.Condition)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        config = uvicorn.Config(
            self._app(), host="127.0.0.1", port=self.port, log_level="critical", ws="none",
            timeout_graceful_shutdown=1, date_header=self.date is None,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, daemon=True)
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def stop(self) -> None:
        self._server.should_exit = True
        with self.change:
            self.change.notify_all()
        self._thread.join()

    # ---- what tests ask

    def give(self, *assignments: Assignment) -> None:
        with self.change:
            self.assignments += assignments
            self.change.notify_all()

    def wait(self, true: Callable[[], object], what: str = "") -> None:
        """Wait until something about this server is true."""
        with self.change:
            assert self.change.wait_for(true, 60), (what, self.reports[-5:])

    def of(self, attempt: str, kind: str) -> list[dict[str, Any]]:
        return [r for r in self.reports if r["attempt"] == attempt and r["kind"] == kind]

    def wait_for(self, attempt: str, kind: str = "finished") -> dict[str, Any]:
        self.wait(lambda: self.of(attempt, kind), f"{attempt} {kind}")
        return self.of(attempt, kind)[-1]

    def log(self, attempt: str) -> str:
        """The attempt's log, put together by the pieces' numbers."""
        pieces = {r["start"]: r["text"] for r in self.of(attempt, "log")}
        text = ""
        for start in sorted(pieces):
            assert start == len(text), "a piece is missing"
            text += pieces[start]
        return text

    # ---- the protocol

    def _answer(self, told: dict[str, Any]) -> JSONResponse:
        headers = {} if self.date is None else {"Date": self.date}
        return JSONResponse(told, headers=headers)

    def _no(self, request: Request) -> JSONResponse | None:
        if self.broken:
            return JSONResponse({"detail": "not now"}, 503)
        bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
        if request.url.path.endswith("/register"):
            if bearer != CREDENTIAL:
                return JSONResponse({"detail": "unknown credential"}, 401)
        elif bearer not in self.tokens:
            return JSONResponse({"detail": "token expired"}, 401)
        elif self.fenced:
            return JSONResponse({"detail": "fenced"}, 409)
        return None

    def _token(self) -> str:
        token = f"token-{time.monotonic_ns()}"
        self.tokens.add(token)
        return token

    def _app(self) -> FastAPI:
        app = FastAPI()
        routes: list[tuple[str, str, Any]] = [
            ("POST", "/register", self._register),
            ("POST", "/heartbeat", self._heartbeat),
            ("POST", "/poll", self._poll),
            ("POST", "/reports", self._reports),
            ("GET", "/attempts/{attempt}/inputs/{number}", self._download),
            ("HEAD", "/attempts/{attempt}/outputs/{file}", self._offset),
        ]
        for method, path, endpoint in routes:
            app.add_api_route(f"/api/v1/worker{path}", endpoint, methods=[method])
        app.add_api_route(
            "/api/v1/worker/attempts/{attempt}/outputs/{file}", self._upload, methods=["PUT"]
        )
        return app

    def _register(self, body: dict[str, Any], request: Request) -> Response:
        if (no := self._no(request)) is not None:
            return no
        nonce = str(body.get("cache_nonce"))
        shared = (self.cache / "proof" / nonce).is_file()
        if shared:
            (self.cache / "proof" / f"{nonce}.server").write_text(nonce)
        with self.change:
            self.registrations.append(body)
            self.fenced = False
            self.change.notify_all()
        return self._answer(
            {
                "worker": "w",
                "session": f"s{len(self.registrations)}",
                "token": self._token(),
                "token_seconds": 60,
                "heartbeat_seconds": self.heartbeat_seconds,
                "lease_seconds": 5.0,
                "shared_cache": shared,
                "forget": list(self.forget),
                "something_new": 1,
            }
        )

    def _heartbeat(self, body: dict[str, Any], request: Request) -> Response:
        if (no := self._no(request)) is not None:
            return no
        with self.change:
            self.heartbeats.append(body)
            self.change.notify_all()
        cancel = [a for a in body["running"] if a in self.cancel]
        return self._answer(
            {"token": self._token(), "token_seconds": 60, "cancel": cancel, "drain": self.drain}
        )

    def _poll(self, body: dict[str, Any], request: Request) -> Response:
        if (no := self._no(request)) is not None:
            return no
        with self.change:
            self.change.wait_for(lambda: self.assignments or self._server.should_exit, 1)
            given, self.assignments = self.assignments, []
        return self._answer({"assignments": [asdict(a) for a in given]})

    def _reports(self, body: dict[str, Any], request: Request) -> Response:
        if (no := self._no(request)) is not None:
            return no
        if self.refuse_all_reports:
            return JSONResponse({"detail": "not now"}, 503)
        if any(self.refuse(report) for report in body["reports"]):
            return JSONResponse({"detail": "cannot read that"}, 422)
        with self.change:
            answers = [
                "stale: over" if r["attempt"] in self.stale else "taken" for r in body["reports"]
            ]
            taken = zip(body["reports"], answers, strict=True)
            self.reports += [report for report, answer in taken if answer == "taken"]
            self.change.notify_all()
        return self._answer({"answers": answers})

    def _download(self, attempt: str, number: int, request: Request) -> Response:
        if (no := self._no(request)) is not None:
            return no
        data = (self.cache / f"{number}").read_bytes()
        wanted = request.headers.get("range")
        self.ranges.append(wanted)
        start = int(wanted.removeprefix("bytes=").rstrip("-")) if wanted else 0
        rest = data[start:]
        if self.cut_after is not None:
            # fewer bytes than announced: the connection breaks in the middle
            cut = rest[: self.cut_after]
            headers = {"content-length": str(len(rest))} if len(cut) == len(rest) else {}
            return Response(cut, 206 if wanted else 200, headers)
        return Response(rest, 206 if wanted else 200)

    def _offset(self, attempt: str, file: str, request: Request) -> Response:
        if (no := self._no(request)) is not None:
            return no
        have = len(self.uploads.get(f"{attempt}/{file}", b""))
        return Response(status_code=204, headers={"Upload-Offset": str(have)})

    async def _upload(
        self, attempt: str, file: str, offset: int, size: int, sha256: str, request: Request
    ) -> Response:
        if (no := self._no(request)) is not None:
            return no
        name = f"{attempt}/{file}"
        have = self.uploads.get(name, b"")
        if offset != len(have):
            return JSONResponse({"detail": "offset"}, 409, {"Upload-Offset": str(len(have))})
        body = await request.body()
        if self.cut_after is not None:
            self.uploads[name] = have + body[: self.cut_after]
            if len(self.uploads[name]) < size:
                return JSONResponse({"detail": "broke off"}, 503)
        else:
            self.uploads[name] = have + body
        assert hashlib.sha256(self.uploads[name]).hexdigest() == sha256
        return Response(status_code=204)
