"""Make the synchronous client out of the one for asyncio: `python scripts/make_sync_client.py`.

One text, two clients: a test compares what this makes with the file in the repository.
"""

from __future__ import annotations

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "packages/gristmill/src/gristmill/client"
HEAD = '"""The client without asyncio. Made by `scripts/make_sync_client.py`: do not edit."""\n'
WORDS = {
    r"\basync (def|with|for)\b": r"\1",
    r"\bawait ": "",
    r"\bAsyncIterator\b": "Iterator",
    r"\bhttpx\.AsyncClient\b": "httpx.Client",
    r"\bhttpx\.AsyncBaseTransport\b": "httpx.BaseTransport",
    r"\bAsyncClient\b": "Client",
    r"\b__aenter__\b": "__enter__",
    r"\b__aexit__\b": "__exit__",
    r"\baclose\b": "close",
    r"\basyncio\.sleep\b": "time.sleep",
    r"^import asyncio\nimport uuid\n": "import time\nimport uuid\n",
}


def made(source: str) -> str:
    """Return the synchronous form of the asynchronous module."""
    text = HEAD + source.split('"""\n', 1)[1]
    for pattern, word in WORDS.items():
        text = re.sub(pattern, word, text, flags=re.MULTILINE)
    return text


if __name__ == "__main__":
    (FOLDER / "synchronous.py").write_text(made((FOLDER / "asynchronous.py").read_text()))
