"""Folders laid out as BEAT lays out its prefixes: declarations with their code and notes.

    <kind>/<owner>/<name>/<version>.json      code beside it as <version>.py, notes as .md or .rst
    databases/<name>/<version>.json           its data files in <version>/
    protocoltemplates/<name>/<version>.json
    experiments/<owner>/<owner>/<name>/<version>/<experiment>.json      (of that toolchain)

A library is `<version>.py`, or a folder `<version>/` of Python files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from gristmill.errors import GristmillError
from gristmill.formats import databases, names
from gristmill.formats.documents import parse_json
from gristmill.formats.problems import BadDocument

KINDS = ("dataformats", "libraries", "databases", "algorithms", "toolchains")
LARGEST_FILE = 16 * 1024 * 1024  #: bytes of a text file that is read


class BadPrefix(GristmillError, ValueError):
    """A folder that does not hold what its layout says, or a file in it that cannot be read."""


@dataclass(frozen=True, slots=True, eq=False)
class Declared:
    """One version of something, with what lies beside it."""

    kind: str  #: one of KINDS
    ref: str  #: owner/name/version; name/version of a database
    declaration: Mapping[str, Any]
    source: str = ""  #: of an algorithm or a database's views
    files: Mapping[str, str] = field(default_factory=dict)  #: of a library: path -> text
    documentation: str = ""
    data: Mapping[str, Path] = field(default_factory=dict)  #: of a database: path -> file


@dataclass(frozen=True, slots=True)
class DeclaredExperiment:
    """An experiment of a prefix."""

    name: str
    owner: str
    toolchain: str  #: reference
    declaration: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Prefix:
    """Everything that a folder declares."""

    declared: tuple[Declared, ...]
    experiments: tuple[DeclaredExperiment, ...]

    def of(self, kind: str) -> dict[str, Declared]:
        """Return what is of one kind, by reference."""
        return {one.ref: one for one in self.declared if one.kind == kind}


def read_prefix(folder: Path) -> Prefix:
    """Read a folder. Raises BadPrefix, naming the file at fault."""
    if not folder.is_dir():
        raise BadPrefix(f"{folder} is not a folder")
    templates = {
        ref: _json(path) for ref, path in _versions(folder / "protocoltemplates", owned=False)
    }
    declared = tuple(
        _declared(kind, ref, path, templates)
        for kind in KINDS
        for ref, path in _versions(folder / kind, owned=kind != "databases")
    )
    experiments = tuple(_experiments(folder / "experiments"))
    if not declared and not experiments:
        kinds = ", ".join((*KINDS, "experiments"))
        raise BadPrefix(f"{folder} holds none of the folders {kinds} with declarations in them")
    return Prefix(declared, experiments)


def _versions(folder: Path, *, owned: bool) -> Iterator[tuple[str, Path]]:
    for path in sorted(folder.glob("*/*/*.json" if owned else "*/*.json")):
        ref = "/".join(path.relative_to(folder).with_suffix("").parts)
        parse: Callable[[object], object] = names.Ref.parse if owned else names.DatabaseRef.parse
        try:
            parse(ref)
        except BadDocument as error:
            raise BadPrefix(f"{path}: {error}") from None
        yield ref, path


def _declared(kind: str, ref: str, path: Path, templates: Mapping[str, Any]) -> Declared:
    declaration = _json(path)
    if kind == "databases" and declaration.get("schema_version") == 2:
        wrong = databases.check_database(declaration, templates)
        if wrong:
            raise BadPrefix(f"{path}: {BadDocument(wrong)}")
        declaration = databases.inlined(declaration, templates)
    one = Declared(kind, ref, declaration, documentation=_beside(path, ".md", ".rst"))
    if kind == "libraries":
        return replace(one, files=_library_files(path))
    source = _beside(path, ".py")
    return replace(one, source=source, data=_data_files(path) if kind == "databases" else {})


def _data_files(path: Path) -> dict[str, Path]:
    """Return the files of a database: everything in the folder of its version."""
    folder = path.with_suffix("")
    files = sorted(file for file in folder.rglob("*") if file.is_file())
    return {file.relative_to(folder).as_posix(): file for file in files}


def _library_files(path: Path) -> dict[str, str]:
    source = _beside(path, ".py")
    if source:
        return {"library.py": source}
    folder = path.with_suffix("")
    return {
        file.relative_to(folder).as_posix(): _text(file)
        for file in sorted(folder.rglob("*.py"))
        if "__pycache__" not in file.parts
    }


def _experiments(folder: Path) -> Iterator[DeclaredExperiment]:
    for path in sorted(folder.glob("*/*/*/*/*.json")):
        owner, *toolchain, name = path.relative_to(folder).with_suffix("").parts
        yield DeclaredExperiment(name, owner, "/".join(toolchain), _json(path))


def _beside(path: Path, *suffixes: str) -> str:
    for suffix in suffixes:
        if path.with_suffix(suffix).is_file():
            return _text(path.with_suffix(suffix))
    return ""


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_FILE:
            raise BadPrefix(f"{path} is larger than {LARGEST_FILE} bytes")
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise BadPrefix(f"{path} is not UTF-8 text") from None
    except OSError as error:
        raise BadPrefix(f"{path} cannot be read: {error.strerror}") from None


def _json(path: Path) -> dict[str, Any]:
    try:
        value = parse_json(_text(path))
    except BadDocument as error:
        raise BadPrefix(f"{path}: {error}") from None
    if not isinstance(value, dict):
        raise BadPrefix(f"{path} holds no JSON object")
    return value


# ---- whose it becomes -----------------------------------------------------------------------


def owned_by(prefix: Prefix, owner: str) -> Prefix:
    """Return a prefix in which everything that it declares belongs to one owner.

    References to what is not in the prefix stay as they are. Raises BadPrefix where two owners'
    things would get one name.
    """
    new = {
        one.ref: f"{owner}/{one.ref.split('/', 1)[1]}"
        for one in prefix.declared
        if one.kind != "databases"
    }
    _refuse_clashes(prefix, new)
    declared = tuple(
        replace(one, ref=new.get(one.ref, one.ref), declaration=_renamed(one.declaration, new))
        for one in prefix.declared
    )
    experiments = tuple(
        replace(
            one,
            owner=owner,
            toolchain=new.get(one.toolchain, one.toolchain),
            declaration=_renamed(one.declaration, new),
        )
        for one in prefix.experiments
    )
    return Prefix(declared, experiments)


def _refuse_clashes(prefix: Prefix, new: Mapping[str, str]) -> None:
    seen: dict[tuple[str, str], str] = {}
    for one in prefix.declared:
        name = (one.kind, new.get(one.ref, one.ref))
        if name in seen:
            raise BadPrefix(f"{seen[name]} and {one.ref} ({one.kind}) would both become {name[1]}")
        seen[name] = one.ref


def _renamed(value: Any, new: Mapping[str, str]) -> Any:
    """Replace references wherever they stand, as values or as keys (`globals`)."""
    match value:
        case str():
            return new.get(value, value)
        case list():
            return [_renamed(item, new) for item in value]
        case Mapping():
            return {new.get(key, key): _renamed(item, new) for key, item in value.items()}
        case _:
            return value


def in_order(prefix: Prefix) -> list[Declared]:
    """Return what is declared, each after what it refers to inside the prefix.

    Raises BadPrefix for a ring of references.
    """
    return [one for kind in KINDS for one in _sorted(prefix.of(kind))]


def _sorted(things: Mapping[str, Declared]) -> list[Declared]:
    """Sort what is of one kind so that what refers to another of the kind comes after it."""
    order: list[Declared] = []
    waiting = dict(things)
    while waiting:
        ready = [
            ref
            for ref, one in waiting.items()
            if not (_own_references(one) & waiting.keys()) - {ref}
        ]
        if not ready:
            ring = ", ".join(sorted(waiting))
            raise BadPrefix(f"These refer to each other in a ring: {ring}")
        order += [waiting.pop(ref) for ref in ready]
    return order


def _own_references(one: Declared) -> set[str]:
    """Return the references of a library or a data format to others of its kind."""
    if one.kind == "libraries":
        uses = one.declaration.get("uses")
        return set(map(str, uses.values())) if isinstance(uses, Mapping) else set()
    if one.kind == "dataformats":
        return set(_texts(one.declaration))
    return set()


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case list():
            for item in value:
                yield from _texts(item)
        case Mapping():
            for item in value.values():
                yield from _texts(item)
        case _:
            pass
