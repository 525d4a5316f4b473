"""Durations in whole seconds and memory in bytes: what people write, read into one form.

A duration is never read from a form with two meanings: `01:30` is refused, because Slurm reads
it as minutes and seconds, PBS as hours and minutes.
"""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta

from gristmill.errors import BadValue

KIB = 1024
MIB = 1024**2
GIB = 1024**3
DAY = 86400

_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": DAY, "w": 7 * DAY}
_WORDS = re.compile(r"(\d+(?:\.\d+)?)\s*(w|d|h|m|s)(?:[a-z]*)\s*", re.IGNORECASE)
_CLOCK = re.compile(r"(?:(\d+)[-:+])?(\d+):(\d{1,2}):(\d{1,2})")
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*([kmgtp]?)(i?b?)", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4, "p": 5}


def seconds(value: int | float | str | timedelta) -> int:
    """A duration in whole seconds, rounded up.

    Takes numbers (seconds), `timedelta`, `"90m"`, `"1h30m"`, `"2 days"`, `"36:00:00"` and
    `"1-12:00:00"` (days first). Raises BadValue on anything else.
    """
    if isinstance(value, timedelta):
        found = value.total_seconds()
    elif isinstance(value, str):
        found = _read_duration(value.strip())
    else:
        found = float(value)
    if not math.isfinite(found) or found <= 0:
        raise BadValue(f"a duration must be more than zero, not {value!r}")
    return math.ceil(found)


def _read_duration(text: str) -> float:
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    if clock := _CLOCK.fullmatch(text):
        days, hours, minutes, rest = (int(part or 0) for part in clock.groups())
        return days * DAY + hours * 3600 + minutes * 60 + rest
    parts = list(_WORDS.finditer(text))
    if parts and "".join(part.group(0) for part in parts) == text:
        return sum(float(part[1]) * _SECONDS[part[2].lower()] for part in parts)
    raise BadValue(
        f"{text!r} is not a duration; write seconds, '90m', '1h30m', '36:00:00' or '1-12:00:00' "
        "('01:30' is refused: it means minutes to one manager and hours to another)"
    )


def clock(value: int, *, days: str | None = None) -> str:
    """`HH:MM:SS`, with hours above 24 unless `days` gives the sign after a count of days."""
    minutes, rest = divmod(value, 60)
    hours, minutes = divmod(minutes, 60)
    if days is None:
        return f"{hours:02d}:{minutes:02d}:{rest:02d}"
    count, hours = divmod(hours, 24)
    return f"{count}{days}{hours:02d}:{minutes:02d}:{rest:02d}"


def bytes_of(value: int | str) -> int:
    """Memory in bytes: a number of bytes, or `"4G"`, `"512 MiB"`, `"100kb"` (powers of 1024)."""
    if isinstance(value, int):
        found = value
    else:
        match = _SIZE.fullmatch(value.strip())
        if not match:
            raise BadValue(f"{value!r} is not an amount of memory; write '4G', '512M' or bytes")
        found = math.ceil(float(match[1]) * KIB ** _POWERS[match[2].lower()])
    if found <= 0:
        raise BadValue(f"memory must be more than zero, not {value!r}")
    return found


def up_to(value: int, grain: int) -> int:
    """`value` in units of `grain`, rounded up: 1 byte more than 1 MiB is 2 MiB."""
    return -(-value // grain)


def human(size: float) -> str:
    """Bytes as people read them: `1.5 GiB`."""
    for unit in ("B", "KiB", "MiB", "GiB", "TiB"):
        if size < KIB or unit == "TiB":
            return f"{size:.0f} {unit}" if size % 1 == 0 else f"{size:.1f} {unit}"
        size /= KIB
    raise AssertionError("unreachable")


def moment(value: float | str | datetime) -> int:
    """A point in time as epoch seconds.

    Takes epoch seconds, an aware `datetime`, or ISO text with a zone (`2030-01-31T08:00+01:00`);
    a time without a zone is refused, since client and cluster may differ.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise BadValue(
                f"{value!r} is not a time; write ISO, as in '2030-01-31T08:00+01:00'"
            ) from None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise BadValue(f"{value.isoformat()} has no time zone; add one, as in '+00:00'")
        value = value.timestamp()
    return math.ceil(value)
