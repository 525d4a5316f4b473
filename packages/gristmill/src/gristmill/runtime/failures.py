"""An exception of user code as result.json tells it: the trace starts in the user's own files."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

MAX_MESSAGE = 10_000
MAX_TRACE = 60_000


def describe(error: BaseException, folder: Path) -> dict[str, Any]:
    """Return `{type, message, trace}`; `folder` is the job folder, whose files are the user's."""
    return {
        "type": type(error).__name__,
        "message": _cut(_message(error), MAX_MESSAGE),
        "trace": _cut(_trace(error, folder), MAX_TRACE),
    }


def _message(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"the code called sys.exit({error.code!r}); return from process() instead"
    try:
        return str(error)
    except Exception as broken:
        return f"(its message cannot be shown: {type(broken).__name__})"


def _trace(error: BaseException, folder: Path) -> str:
    own = str(folder) + "/"
    first = error.__traceback__
    while first is not None and not first.tb_frame.f_code.co_filename.startswith(own):
        first = first.tb_next
    try:
        lines = traceback.format_exception(type(error), error, first)
    except Exception:
        lines = [f"{type(error).__name__}: {_message(error)}"]
    return "".join(lines).replace(own, "")


def _cut(text: str, limit: int) -> str:
    text = text.encode("utf-8", "backslashreplace").decode()
    if len(text) <= limit:
        return text
    half = limit // 2
    return f"{text[:half]}\n[… {len(text) - limit} characters left out …]\n{text[-half:]}"
