"""Texts that come from jobs, made fit for JSON, UTF-8 and PostgreSQL."""

from __future__ import annotations


def storable(value: object, limit: int) -> str:
    """Return a value's text without NUL and half characters, at most `limit` characters of it."""
    text = str(value)[:limit]
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
