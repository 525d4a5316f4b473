"""Logs: one JSON object a line (or for a terminal), with request ids and without secrets."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any

import structlog

HIDDEN = "***"
_SECRET_NAMES = re.compile(
    r"password|secret|token|authorization|cookie|credential|api.?key", re.IGNORECASE
)
_SECRET_TEXTS = re.compile(
    r"gristmill_(?:pat|wrk|ref)_[A-Za-z0-9_-]+"  # our own opaque tokens
    r"|eyJ[A-Za-z0-9_-]{5,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"  # JWTs
    r"|(?<=://)[^\s/:@]+:[^\s/@]+(?=@)"  # user:password in URLs
)
_CHATTY = ("uvicorn.access", "asyncio", "alembic")

Event = MutableMapping[str, Any]


def redact(value: Any) -> Any:
    """Return the value with everything that looks like a secret replaced."""
    if isinstance(value, str):
        return _SECRET_TEXTS.sub(HIDDEN, value)
    if isinstance(value, Mapping):
        return {
            key: HIDDEN if _SECRET_NAMES.search(str(key)) else redact(inner)
            for key, inner in value.items()
        }
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return [redact(inner) for inner in value]
    return value


def _redact_event(_logger: Any, _method: str, event: Event) -> Event:
    event.pop("color_message", None)  # uvicorn's, for terminals
    for key, value in list(event.items()):
        named = key != "_record" and _SECRET_NAMES.search(key)
        event[key] = HIDDEN if named else _redacted(key, value)
    return event


def _redacted(key: str, value: Any) -> Any:
    return value if key in {"_record", "exc_info"} else redact(value)


def configure(*, level: str, as_json: bool) -> None:
    """Send structlog's and the standard library's records the same way: to standard error."""
    shared: list[Any] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.StackInfoRenderer(),
    ]
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=False,  # levels change while running
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_formatter(shared, as_json=as_json))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    for name in _CHATTY:
        logging.getLogger(name).setLevel("WARNING")


def _formatter(shared: list[Any], *, as_json: bool) -> logging.Formatter:
    tail: list[Any] = (
        [
            structlog.processors.format_exc_info,
            _redact_event,
            structlog.processors.JSONRenderer(default=str),
        ]
        if as_json
        else [_redact_event, structlog.dev.ConsoleRenderer()]
    )
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=shared,
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *tail],
    )
