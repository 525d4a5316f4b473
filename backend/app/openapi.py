"""The description of the API: what FastAPI derives, with our error document in every operation."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from backend.app.errors import ProblemDocument

_REF = "#/components/schemas/{model}"


def describe(app: FastAPI) -> None:
    """Replace the application's `openapi()` by one that knows our errors."""

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _schema(app)
        return app.openapi_schema

    app.openapi = described  # type: ignore[method-assign]


def _schema(app: FastAPI) -> dict[str, Any]:
    schema = get_openapi(title=app.title, version=app.version, routes=app.routes)
    for operation in operations(schema):
        operation["responses"].pop("422", None)  # FastAPI's own form; ours is "default"
    schemas = schema.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    document = ProblemDocument.model_json_schema(ref_template=_REF)
    schemas.update(document.pop("$defs", {}))
    schemas["ProblemDocument"] = document
    _tell_apart(schemas)
    schema["components"]["schemas"] = dict(sorted(schemas.items()))
    return schema


def _tell_apart(schemas: dict[str, Any]) -> None:
    """Give schemas of one title titles of their own: client generators name classes by them."""
    counts = Counter(schema.get("title") for schema in schemas.values())
    for key, schema in schemas.items():
        if counts[schema.get("title")] > 1:
            words = "-".join(key.split("__")[-2:]).split("-")  # blocks__State: BlocksState
            schema["title"] = "".join(word[:1].upper() + word[1:] for word in words)


def written(schema: dict[str, Any]) -> str:
    """Return the description as `openapi/openapi.json` holds it."""
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def operations(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield every operation of a description."""
    for path in schema["paths"].values():
        for method, operation in path.items():
            if method in {"get", "put", "post", "delete", "patch", "head", "options"}:
                yield operation
