"""The user's modules: an algorithm, a view, libraries under the names their users gave them.

Each library sees only what it `uses`, under its own aliases: two libraries may call different
things by one name. That is done by giving every user module an `__import__` of its own.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from gristmill.runtime.errors import JobError
from gristmill.runtime.job import Job

ROOT = "gristmill_user"


@dataclass(frozen=True, slots=True)
class Scope:
    """A folder of user code that is one package, and what it may import by alias."""

    package: str  #: name in sys.modules
    folder: Path
    aliases: Mapping[str, str]  #: alias -> package

    def target(self, head: str) -> str | None:
        """Return the package or module that `head` names here, if it is user code."""
        if head in self.aliases:
            return self.aliases[head]
        if (self.folder / f"{head}.py").is_file() or (self.folder / head).is_dir():
            return f"{self.package}.{head}"
        return None

    def import_(
        self,
        name: str,
        globals: Mapping[str, Any] | None = None,
        locals: Mapping[str, Any] | None = None,
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """Do what the statement `import` asks, in this scope."""
        head, _, rest = name.partition(".")
        target = self.target(head) if level == 0 else None
        if target is None:
            return builtins.__import__(name, globals, locals, fromlist or (), level)
        module = importlib.import_module(f"{target}.{rest}" if rest else target)
        if not fromlist:
            return sys.modules[target]
        _import_parts(module, fromlist)
        return module


def _import_parts(module: ModuleType, names: Sequence[str]) -> None:
    """`from package import part` may name a module that is not loaded yet."""
    for name in names:
        part = f"{module.__name__}.{name}"
        if name == "*" or hasattr(module, name) or not hasattr(module, "__path__"):
            continue
        if importlib.util.find_spec(part) is not None:
            importlib.import_module(part)


class Loader(importlib.machinery.SourceFileLoader):
    """Loads a user module with the `__import__` of its scope."""

    scope: Scope

    def exec_module(self, module: ModuleType) -> None:
        """Run the module's code."""
        scoped = {**vars(builtins), "__import__": self.scope.import_}
        module.__dict__["__builtins__"] = scoped
        super().exec_module(module)


class Finder(importlib.abc.MetaPathFinder):
    """Finds user modules, all of which live below `gristmill_user`."""

    def __init__(self, scopes: Sequence[Scope]) -> None:
        self._scopes = {scope.package: scope for scope in scopes}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """Find a scope's package, or a module inside one."""
        parts = fullname.split(".")
        if parts[0] != ROOT:
            return None
        if len(parts) == 1:
            return importlib.machinery.ModuleSpec(ROOT, None, is_package=True)
        scope = self._scopes.get(".".join(parts[:2]))
        if scope is None:
            return None
        if len(parts) == 2:
            return _package_spec(scope)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _loader(scope, fullname, Path(spec.loader.path))
        return spec


def _package_spec(scope: Scope) -> importlib.machinery.ModuleSpec:
    main = main_file(scope.folder)
    if main is None:
        spec = importlib.machinery.ModuleSpec(scope.package, None, is_package=True)
        spec.submodule_search_locations = [str(scope.folder)]
        return spec
    found = importlib.util.spec_from_file_location(
        scope.package,
        main,
        loader=_loader(scope, scope.package, main),
        submodule_search_locations=[str(scope.folder)],
    )
    assert found is not None
    return found


def main_file(folder: Path) -> Path | None:
    """Return the file that `import alias` runs: `__init__.py`, `library.py`, or the only one."""
    for name in ("__init__.py", "library.py"):
        if (folder / name).is_file():
            return folder / name
    files = sorted(folder.glob("*.py"))
    return files[0] if len(files) == 1 else None


def _loader(scope: Scope, name: str, path: Path) -> Loader:
    loader = Loader(name, str(path))
    loader.scope = scope
    return loader


def load(job: Job) -> type[Any]:
    """Run the entry file and return the class it must define.

    Raises JobError where a library or the file is missing; whatever user code raises goes through.
    """
    packages = {reference: f"{ROOT}.used{number}" for number, reference in enumerate(job.libraries)}
    scopes = [
        Scope(packages[reference], library.folder, _aliases(library.uses, packages, reference))
        for reference, library in job.libraries.items()
    ]
    entry = Scope(
        f"{ROOT}.entry", job.entry_file.parent, _aliases(job.uses, packages, "the algorithm")
    )
    if not job.entry_file.is_file():
        raise JobError(f"the entry file {job.entry_file} is not there")
    sys.meta_path.insert(0, Finder([*scopes, entry]))
    return _entry_class(job, entry)


def _aliases(uses: Mapping[str, str], packages: Mapping[str, str], user: str) -> dict[str, str]:
    for alias, reference in uses.items():
        if reference not in packages:
            raise JobError(
                f"{user} uses {reference!r} as {alias!r}, which job.json has no library for"
            )
    return {alias: packages[reference] for alias, reference in uses.items()}


def _entry_class(job: Job, entry: Scope) -> type[Any]:
    package = importlib.machinery.ModuleSpec(entry.package, None, is_package=True)
    package.submodule_search_locations = [str(entry.folder)]
    importlib.import_module(ROOT)
    sys.modules[entry.package] = importlib.util.module_from_spec(package)
    name = f"{entry.package}.{job.entry_file.stem}"
    module = importlib.import_module(name)
    found = getattr(module, job.entry_name, None)
    if not isinstance(found, type):
        from gristmill.runtime.errors import AlgorithmError

        raise AlgorithmError(f"{job.entry_file.name} defines no class {job.entry_name!r}")
    return found
