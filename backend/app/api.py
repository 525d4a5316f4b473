"""The routers of /api/v1, one line each."""

from __future__ import annotations

from fastapi import APIRouter

PREFIX = "/api/v1"

NOUNS: tuple[APIRouter, ...] = ()


def router() -> APIRouter:
    """Return everything under /api/v1."""
    api = APIRouter(prefix=PREFIX)
    for noun in NOUNS:
        api.include_router(noun)
    return api
