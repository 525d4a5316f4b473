"""The page: the built frontend, served from the same origin as the API.

Files under /assets carry a hash in their name and are kept by browsers; every other path that is
no file is the page itself, which finds out by its router what to show. Paths of the API and of
health are never answered here.
"""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

import backend

_OURS = ("/api/", "/healthz", "/readyz", "/metrics")
FOREVER = "public, max-age=31536000, immutable"


def folder() -> Path | None:
    """Return the folder of the built page: beside the source, or inside the wheel."""
    package = Path(backend.__file__).parent
    for place in (package.parent / "frontend" / "dist", package / "page"):
        if (place / "index.html").is_file():
            return place.resolve()
    return None


def install(app: FastAPI, root: Path | None) -> None:
    """Serve the page; without a build of it, say what to do."""
    route = _PageRoute("/{path:path}", _Page(root), name="page", include_in_schema=False)
    app.router.routes.append(route)


class _PageRoute(Route):
    """Matches nothing of the API's, so that 404 and 405 are told there."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        ours = scope["path"].startswith(_OURS) or scope["path"] == "/api"
        if ours or scope.get("method") not in {"GET", "HEAD"}:
            return Match.NONE, {}
        return super().matches(scope)


class _Page:
    """Answers with a file, or with the page."""

    def __init__(self, root: Path | None) -> None:
        self._root = root

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._answer(Request(scope))(scope, receive, send)

    def _answer(self, request: Request) -> Response:
        path = request.url.path
        if self._root is None:
            raise HTTPException(404, "the page is not built: run `make frontend`")
        file = self._file(self._root, path)
        if file is not None:
            kept = path.startswith("/assets/")
            return FileResponse(file, headers={"Cache-Control": FOREVER if kept else "no-cache"})
        if path.startswith("/assets/") or "text/html" not in request.headers.get("accept", "*/*"):
            raise HTTPException(404)
        return FileResponse(self._root / "index.html", headers={"Cache-Control": "no-cache"})

    @staticmethod
    def _file(root: Path, path: str) -> Path | None:
        """Return the file of a path if it is one, and inside the folder."""
        if "\0" in path or "\\" in path:
            return None
        file = (root / path.lstrip("/")).resolve()
        return file if file.is_relative_to(root) and file.is_file() else None
