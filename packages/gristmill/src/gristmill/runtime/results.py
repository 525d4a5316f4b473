"""The results of an analyzer as plain JSON.

A number that JSON cannot hold becomes a string: "NaN", "Infinity", "-Infinity".
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gristmill.runtime.errors import DataError
from gristmill.runtime.types import BASE, Record
from gristmill.runtime.values import Data, fields_of

MAX_DEPTH = 50


def checked(given: Any, declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return `{name: {type, value, display}}`. Raises DataError naming the result at fault."""
    values = fields_of(given, Record(tuple((name, Record(())) for name in declared)), "results")
    return {
        name: {
            "type": result["type"],
            "value": _value(values[name], result["type"], f"result {name!r}"),
            "display": bool(result.get("display", False)),
        }
        for name, result in declared.items()
    }


def _value(value: Any, kind: str, where: str) -> Any:
    if kind not in BASE:
        return plain(value, where)
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.reshape(())[()]
    if kind == "string":
        if not isinstance(value, str):
            raise DataError(f"{where}: expected string, got {type(value).__name__}")
        return plain(value, where)
    return plain(_number(value, kind, where), where)


def _number(value: Any, kind: str, where: str) -> Any:
    """A result is shown, not computed with: a wider number is rounded to the declared type."""
    if not isinstance(value, bool | int | float | complex | np.generic):
        raise DataError(f"{where}: expected {kind}, got {type(value).__name__}")
    found, wanted = np.asarray(value), np.dtype(kind)
    if not np.can_cast(found.dtype, wanted, "same_kind"):
        raise DataError(f"{where}: expected {kind}, got {found.dtype}")
    if wanted.kind in "iu":
        limits, number = np.iinfo(wanted), int(found)
        if not limits.min <= number <= limits.max:
            raise DataError(f"{where}: {number} is outside the range of {kind}")
    return found.astype(wanted)[()]


def plain(value: Any, where: str, depth: int = 0) -> Any:
    """Return `value` as what JSON holds. Raises DataError on anything else."""
    if depth > MAX_DEPTH:
        raise DataError(f"{where}: nested deeper than {MAX_DEPTH}")
    if isinstance(value, np.generic):
        value = value.item() if value.dtype != np.float32 else float(str(value))
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, complex):
        return {"re": _finite(value.real), "im": _finite(value.imag)}
    if isinstance(value, Data):
        value = value.as_dict()
    if isinstance(value, Mapping):
        return {
            str(name): plain(item, f"{where}.{name}", depth + 1) for name, item in value.items()
        }
    if isinstance(value, np.ndarray | list | tuple):
        return [plain(item, f"{where}[{i}]", depth + 1) for i, item in enumerate(value)]
    raise DataError(f"{where}: {type(value).__name__} cannot be a result")


def _finite(value: float) -> float | str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
