"""Parameters as `setup` receives them: Python's own types, defaults filled in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def typed(given: Mapping[str, Any], declared: Mapping[str, Any]) -> dict[str, Any]:
    """Return all parameters; a number given for a float parameter arrives as a float."""
    defaults = {
        name: parameter["default"] for name, parameter in declared.items() if "default" in parameter
    }
    return {
        name: _typed(value, declared.get(name, {}).get("type", ""))
        for name, value in {**defaults, **given}.items()
    }


def _typed(value: Any, kind: str) -> Any:
    if kind.startswith("float") and isinstance(value, int | str):
        return float(value)
    if kind.startswith("complex") and isinstance(value, int | float | str):
        return complex(value)
    if kind.startswith(("int", "uint")) and isinstance(value, float) and value.is_integer():
        return int(value)
    return value
