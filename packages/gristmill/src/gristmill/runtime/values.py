"""Values as user code sees and gives them: `Data` objects, and what is checked of a write.

Casts follow BEAT: what numpy calls safe. Plain Python numbers have no width of their own, so they
are held against the range of the target instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from gristmill.runtime.errors import DataError
from gristmill.runtime.types import Array, Record, Scalar, Type


class Data:
    """One value of a data format; its fields are attributes."""

    def __init__(self, fields: Mapping[str, Any]) -> None:
        self.__dict__.update(fields)

    def as_dict(self) -> dict[str, Any]:
        """Return fields as plain dictionaries, all the way down."""
        return {name: _plain(value) for name, value in self.__dict__.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self.__dict__)

    def __getitem__(self, name: str) -> Any:
        return self.__dict__[name]

    def __repr__(self) -> str:
        return f"Data({', '.join(self.__dict__)})"


def _plain(value: Any) -> Any:
    if isinstance(value, Data):
        return value.as_dict()
    if isinstance(value, np.ndarray) and value.dtype == object:
        plain = np.empty(value.shape, dtype=object)
        plain.ravel()[:] = [_plain(item) for item in value.ravel()]
        return plain
    return value


def fields_of(value: Any, record: Record, where: str) -> dict[str, Any]:
    """Return the fields that `value` gives for `record`; none may be missing or unknown."""
    if isinstance(value, Data):
        value = value.__dict__
    if not isinstance(value, Mapping):
        raise DataError(f"{where}: expected an object with fields, got {_kind(value)}")
    known = dict(record.fields)
    missing = [name for name in known if name not in value]
    if missing:
        raise DataError(f"{where}: the field {missing[0]!r} is missing")
    unknown = [name for name in value if name not in known]
    if unknown:
        raise DataError(f"{where}: no field {unknown[0]!r} in the format (it has {list(known)})")
    return dict(value)


def scalar(value: Any, kind: Scalar, where: str) -> Any:
    """Return `value` as the numpy scalar, or string, that `kind` asks for."""
    if isinstance(value, np.ndarray) and value.ndim == 0:
        value = value[()]
    if kind.name == "string":
        return text(value, where)
    if isinstance(value, np.generic):
        return _array_as(np.asarray(value), kind, where)[()]
    if isinstance(value, bool | int | float | complex):
        return _python_numbers(np.asarray(value), kind, where)[()]
    raise DataError(f"{where}: expected {kind.name}, got {_kind(value)}")


def text(value: Any, where: str) -> str:
    """Return `value` as a string that UTF-8 can hold."""
    if not isinstance(value, str):
        raise DataError(f"{where}: expected string, got {_kind(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise DataError(f"{where}: the string holds half a character (a surrogate)") from None
    return str(value)


def array(value: Any, kind: Array, where: str) -> np.ndarray[Any, Any]:
    """Return `value` as a C-ordered array of the type's shape (objects where it is no number)."""
    if isinstance(kind.element, Scalar) and kind.element.name != "string":
        found = _numbers(value, kind, kind.element, where)
    else:
        found = _objects(value, len(kind.shape), where)
    wrong = found.ndim != len(kind.shape) or any(
        asked not in (0, got) for asked, got in zip(kind.shape, found.shape, strict=True)
    )
    if wrong:
        raise DataError(f"{where}: expected shape {_shape(kind.shape)}, got {list(found.shape)}")
    return found


def _numbers(value: Any, kind: Array, element: Scalar, where: str) -> np.ndarray[Any, Any]:
    typed = isinstance(value, np.ndarray | np.generic)
    try:
        found = np.asarray(value)
    except ValueError:
        raise DataError(f"{where}: the rows of the array differ in length") from None
    if found.size == 0 and not typed:
        return _empty(found, kind).astype(element.name)
    if found.dtype == object:
        raise DataError(f"{where}: expected an array of {element.name}, got {_kind(value)}")
    if typed or _holds_numpy(value):
        found = _array_as(found, element, where)
    else:
        found = _python_numbers(found, element, where)
    return np.ascontiguousarray(found).reshape(found.shape)


def _empty(found: np.ndarray[Any, Any], kind: Array) -> np.ndarray[Any, Any]:
    """`[]` stands for an empty array of any number of dimensions."""
    return found if found.ndim == len(kind.shape) else found.reshape((0,) * len(kind.shape))


def _holds_numpy(value: Any) -> bool:
    while isinstance(value, list | tuple) and value:
        value = value[0]
    return isinstance(value, np.ndarray | np.generic)


def _objects(value: Any, dimensions: int, where: str) -> np.ndarray[Any, Any]:
    """Nested lists, or an array, of strings or objects, as an array of `dimensions`."""
    if isinstance(value, np.ndarray):
        return value.astype(object)
    shape, items = _nested(value, dimensions, where)
    found = np.empty(len(items), dtype=object)
    found[:] = items
    return found.reshape(shape)


def _nested(value: Any, dimensions: int, where: str) -> tuple[tuple[int, ...], list[Any]]:
    if not isinstance(value, list | tuple | np.ndarray):
        raise DataError(f"{where}: expected an array, got {_kind(value)}")
    if dimensions == 1:
        return (len(value),), list(value)
    if not len(value):
        return (0,) * dimensions, []
    parts = [_nested(item, dimensions - 1, where) for item in value]
    if len({shape for shape, _ in parts}) != 1:
        raise DataError(f"{where}: the rows of the array differ in length")
    return (len(value), *parts[0][0]), [item for _, items in parts for item in items]


def _array_as(found: np.ndarray[Any, Any], kind: Scalar, where: str) -> np.ndarray[Any, Any]:
    wanted = np.dtype(kind.name)
    if not np.can_cast(found.dtype, wanted, "safe"):
        raise DataError(
            f"{where}: {found.dtype} does not fit safely into {kind.name}; "
            f"convert it yourself, for example with numpy.{_numpy_name(kind)}(…)"
        )
    return found.astype(wanted, copy=False)


def _python_numbers(found: np.ndarray[Any, Any], kind: Scalar, where: str) -> np.ndarray[Any, Any]:
    wanted = np.dtype(kind.name)
    fits = np.can_cast(found.dtype, wanted, "same_kind") or (found.dtype.kind, wanted.kind) in {
        ("i", "u"),
        ("u", "i"),
    }
    if not fits:
        raise DataError(f"{where}: expected {kind.name}, got {found.dtype.name}")
    if wanted.kind in "iu" and found.dtype.kind in "iu" and found.size:
        limits = np.iinfo(wanted)
        low, high = int(found.min()), int(found.max())
        if low < limits.min or high > limits.max:
            outside = low if low < limits.min else high
            raise DataError(f"{where}: {outside} is outside the range of {kind.name}")
    return found.astype(wanted, copy=False)


def _numpy_name(kind: Scalar) -> str:
    return "bool_" if kind.name == "bool" else kind.name


def _kind(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"an array of {value.dtype}"
    return "nothing (None)" if value is None else type(value).__name__


def _shape(shape: tuple[int, ...]) -> str:
    return "[" + ", ".join(str(n) if n else "any" for n in shape) + "]"


def check(value: Any, kind: Type, where: str) -> Any:
    """Return `value` checked and cast against `kind`, all the way down."""
    match kind:
        case Scalar():
            return scalar(value, kind, where)
        case Record():
            given = fields_of(value, kind, where)
            return {
                name: check(given[name], inner, f"{where}.{name}") for name, inner in kind.fields
            }
        case Array():
            found = array(value, kind, where)
            if found.dtype != object:
                return found
            checked = np.empty(found.size, dtype=object)
            for place, item in enumerate(found.ravel()):
                checked[place] = check(item, kind.element, f"{where}[{place}]")
            return checked.reshape(found.shape)
