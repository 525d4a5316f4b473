"""BEAT's base types, and how a JSON value becomes one of them."""

from __future__ import annotations

import math
from typing import Any

INTEGERS: dict[str, tuple[int, int]] = {
    "int8": (-(2**7), 2**7 - 1),
    "int16": (-(2**15), 2**15 - 1),
    "int32": (-(2**31), 2**31 - 1),
    "int64": (-(2**63), 2**63 - 1),
    "uint8": (0, 2**8 - 1),
    "uint16": (0, 2**16 - 1),
    "uint32": (0, 2**32 - 1),
    "uint64": (0, 2**64 - 1),
}
FLOATS: dict[str, float] = {"float32": 3.4028234663852886e38, "float64": 1.7976931348623157e308}
COMPLEX = ("complex64", "complex128")
BASE_TYPES: tuple[str, ...] = (*INTEGERS, *FLOATS, *COMPLEX, "bool", "string")

_BOOLEANS: dict[Any, bool] = {
    "true": True,
    "false": False,
    "1": True,
    "0": False,
    1: True,
    0: False,
}


class BadCast(ValueError):
    """A value that is none of its type; the text is what would be."""


def cast(value: Any, type_: str) -> Any:
    """Return a JSON value as one of a base type, in the one way it is written from then on.

    Numbers may stand as text (BEAT takes them so): `"5"`, `5.0` and `5` are the same int8. Complex
    numbers stay text ("1+2j"), as JSON has none. Raises BadCast.
    """
    if type_ in INTEGERS:
        return _integer(value, type_)
    if type_ in FLOATS:
        return _real(value, type_)
    if type_ in COMPLEX:
        return _complex(value)
    if type_ == "bool":
        return _boolean(value)
    if isinstance(value, str):
        return value
    raise BadCast("text")


def _integer(value: Any, type_: str) -> int:
    least, most = INTEGERS[type_]
    expected = f"a whole number from {least} to {most}"
    number = _number(value, expected)
    if isinstance(number, float):
        if not number.is_integer():
            raise BadCast(expected)
        number = int(number)
    if not least <= number <= most:
        raise BadCast(expected)
    return number


def _real(value: Any, type_: str) -> float:
    expected = f"a finite number of type {type_}"
    try:
        number = float(_number(value, expected))
    except OverflowError:
        raise BadCast(expected) from None
    if not abs(number) <= FLOATS[type_]:  # NaN too
        raise BadCast(expected)
    return number + 0.0  # -0.0 is 0.0


def _number(value: Any, expected: str) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise BadCast(expected)
    if not isinstance(value, str):
        if isinstance(value, float) and not math.isfinite(value):
            raise BadCast(expected)
        return value
    if len(value) > 40:
        raise BadCast(expected)
    try:
        return int(value)
    except ValueError:
        pass
    try:
        number = float(value)
    except ValueError:
        raise BadCast(expected) from None
    if not math.isfinite(number):
        raise BadCast(expected)
    return number


def _complex(value: Any) -> str:
    expected = 'a complex number such as "1+2j"'
    if isinstance(value, bool) or not isinstance(value, int | float | str) or len(str(value)) > 80:
        raise BadCast(expected)
    try:
        number = complex(value.replace(" ", "") if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        raise BadCast(expected) from None
    if not (math.isfinite(number.real) and math.isfinite(number.imag)):
        raise BadCast(expected)
    return f"{number.real!r}{number.imag:+}j"


def _boolean(value: Any) -> bool:
    key = value.lower() if isinstance(value, str) else value
    if isinstance(key, str | int | float) and key in _BOOLEANS:
        return _BOOLEANS[key]
    raise BadCast("true or false")
