"""Opaque secrets: random, recognisable by scanners, kept only as SHA-256.

`gristmill_pat_…` is a person's, `gristmill_wrk_…` a worker's, `gristmill_ref_…` refreshes,
`gristmill_ses_…` is a browser's. The last six characters are a checksum: a mistyped or invented
one is refused without a look into the database.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets
import zlib
from enum import StrEnum

_FORM = re.compile(r"gristmill_(pat|wrk|ref|ses)_([A-Za-z0-9_-]{43})([A-Za-z0-9_-]{6})")
LONGEST = 80


class Kind(StrEnum):
    """Whose secret it is."""

    PERSONAL = "pat"
    WORKER = "wrk"
    REFRESH = "ref"
    SESSION = "ses"


def make(kind: Kind) -> str:
    """Return a new secret."""
    body = secrets.token_urlsafe(32)
    return f"gristmill_{kind}_{body}{_checksum(kind, body)}"


def is_a(kind: Kind, text: str) -> bool:
    """Tell whether a text has the form of such a secret."""
    if len(text) > LONGEST:
        return False
    found = _FORM.fullmatch(text)
    return found is not None and found[1] == kind and found[3] == _checksum(kind, found[2])


def digest(text: str) -> bytes:
    """Return what is stored: 256 random bits need no salt."""
    return hashlib.sha256(text.encode()).digest()


def _checksum(kind: str, body: str) -> str:
    crc = zlib.crc32(f"{kind}{body}".encode()).to_bytes(4, "big")
    return base64.urlsafe_b64encode(crc).decode().rstrip("=")
