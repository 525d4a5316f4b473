"""UUIDs of version 7 (RFC 9562): unique, and ordered by the time they were made."""

from __future__ import annotations

import secrets
import time
from uuid import UUID


def uuid7() -> UUID:
    """Return a fresh UUID whose first 48 bits are the Unix time in milliseconds."""
    milliseconds = time.time_ns() // 1_000_000
    value = (milliseconds & ((1 << 48) - 1)) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 0x7 << 76  # version
    value = value & ~(0x3 << 62) | 0x2 << 62  # variant
    return UUID(int=value)
