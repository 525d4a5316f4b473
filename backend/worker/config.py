"""What a worker is told when it starts: command line over TOML file over environment variables."""

from __future__ import annotations

import argparse
import os
import re
import socket
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from backend.worker.executors.base import Quotas

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class BadConfig(Exception):
    """The configuration is wrong; the message says where and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvironmentConfig:
    """Where an environment stands on this machine."""

    executable: tuple[str, ...]
    name: str | None = None  #: what `describe` says, unless given
    version: str | None = None
    bind: tuple[str, ...] = ()  #: folders it needs besides those that `describe` tells


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerConfig:
    """How jobs are handed to a resource manager, where one runs them."""

    folder: Path | None = None  #: that the nodes see too, at the same path: `work` goes there
    queues: Mapping[str, str] = field(default_factory=dict)  #: platform's queue: the manager's
    native: tuple[str, ...] = ()  #: options in the manager's own words, for every job
    site: Path | None = None  #: a site file of the library
    python: str = sys.executable  #: the interpreter on the nodes that has this worker's software
    interval: float | None = None  #: seconds between two questions to the manager
    time_margin_seconds: int = 120  #: asked for above the queue's limit, which we hold ourselves
    memory_margin_mb: int = 256  #: likewise, for what watches the job
    seen_within_seconds: float = 10.0  #: a file that a node wrote is seen here by then
    on_drain: str = "wait"  #: or "leave": jobs go on, and the next process picks them up


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything a worker is told."""

    server: str
    token: str = field(repr=False)
    token_file: Path | None = None
    name: str
    cores: int
    memory_mb: int
    work: Path  #: folder of this worker alone: running jobs, waiting reports, fetched inputs
    cache: Path | None = None  #: the server's cache folder, where both see it
    sandbox: str = "bubblewrap"
    environments: tuple[EnvironmentConfig, ...] = ()
    cgroup: Path | None = None  #: a version 1 memory group in which jobs' groups may be made
    standby: int = 1  #: sandboxes started ahead of need
    grace_seconds: float = (
        60.0  #: how long jobs may go on after SIGTERM before they are handed back
    )
    fetched_bytes: int = 10 * 2**30  #: kept of inputs fetched over HTTP
    quotas: Quotas = field(default_factory=Quotas)
    data_folders: tuple[Path, ...] = ()  #: folders of databases that jobs may see
    executor: str = "process"  #: or a resource manager, as `gristmill.connect` takes it
    manager: ManagerConfig = field(default_factory=ManagerConfig)
    idle_seconds: float | None = None  #: drain after so long without a job; None: never
    life_seconds: float | None = None  #: drain after so long in any case; None: never


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    made = argparse.ArgumentParser(
        prog="gristmill worker", description="Poll a Gristmill server for jobs and run them."
    )
    made.add_argument("--server", help="address of the server, e.g. http://localhost:8000")
    made.add_argument("--token", help="credential; others can see it in `ps`: prefer a file")
    made.add_argument("--token-file", type=Path, help="file that holds the credential")
    made.add_argument("--name", help="name of this worker (default: the host's)")
    made.add_argument("--cores", type=int, help="cores to offer (default: all)")
    made.add_argument("--memory", type=int, metavar="MB", help="memory to offer (default: 90 %%)")
    made.add_argument("--cache", type=Path, help="the server's cache folder, if seen from here")
    made.add_argument("--work", type=Path, help="folder for this worker's own files")
    made.add_argument("--config", type=Path, help="TOML file with environments and the above")
    made.add_argument("--executor", help="process (default), or a manager: slurm, oar, local …")
    made.add_argument(
        "--idle-seconds", type=float, help="stop after so long without a job (default: never)"
    )
    made.add_argument(
        "--life-seconds", type=float, help="drain after so long in any case (default: never)"
    )
    made.add_argument("--sandbox", choices=("bubblewrap", "none"), help="default: bubblewrap")
    return made


def read(argv: Sequence[str], variables: Mapping[str, str], default_python: str) -> Config:
    """Return the configuration. Raises BadConfig with a sentence."""
    given = parser().parse_args(argv)
    if given.config is None and "GRISTMILL_WORKER_CONFIG" in variables:
        given.config = Path(variables["GRISTMILL_WORKER_CONFIG"])
    table = {} if given.config is None else _toml(given.config)
    known = {"environment", "quotas", *(f.name for f in fields(Config)), "memory"}
    unknown = sorted(table.keys() - known)
    if unknown:
        raise BadConfig(f"{given.config}: nothing is called {unknown[0]!r}; known: {sorted(known)}")
    try:
        return _config(given, table, variables, default_python)
    except (TypeError, ValueError, AttributeError) as error:
        raise BadConfig(f"{given.config or 'command line'}: {error}") from error


def _config(
    given: argparse.Namespace,
    table: Mapping[str, Any],
    variables: Mapping[str, str],
    default_python: str,
) -> Config:
    def told(name: str, default: Any = None) -> Any:
        here = getattr(given, name, None)
        if here is None:
            here = table.get(name, variables.get(f"GRISTMILL_WORKER_{name.upper()}"))
        return default if here is None else here

    name = str(told("name", socket.gethostname()))
    if not NAME.fullmatch(name):
        raise BadConfig(f"a worker cannot be called {name!r}: letters, digits, . _ - (at most 100)")
    cache = _folder(told("cache"))
    manager = _manager(table.get("manager", {}))
    idle, life = told("idle_seconds"), told("life_seconds")
    sandbox = told("sandbox", "bubblewrap")
    if sandbox not in ("bubblewrap", "none"):
        raise BadConfig(f"sandbox is {sandbox!r}, not bubblewrap or none")
    server = _server(told("server"))
    token, token_file = _token(told("token"), told("token_file"))
    cores, memory = int(told("cores", os.cpu_count() or 1)), told("memory", table.get("memory_mb"))
    memory_mb = int(memory or _memory_mb())
    if cores < 1 or memory_mb < 1:
        raise BadConfig("cores and memory must be at least 1")
    return Config(
        server=server,
        token=token,
        token_file=token_file,
        name=name,
        cores=cores,
        memory_mb=memory_mb,
        work=_folder(told("work")) or _default_work(name, cache, manager.folder),
        cache=cache,
        sandbox=sandbox,
        environments=_environments(table, default_python),
        cgroup=_folder(told("cgroup")),
        standby=int(told("standby", 1)),
        grace_seconds=float(told("grace_seconds", 60.0)),
        fetched_bytes=int(told("fetched_bytes", 10 * 2**30)),
        quotas=replace(Quotas(), **table.get("quotas", {})),
        data_folders=tuple(Path(folder).resolve() for folder in table.get("data_folders", ())),
        executor=str(told("executor", "process")),
        manager=manager,
        idle_seconds=None if idle is None else float(idle),
        life_seconds=None if life is None else float(life),
    )


def _manager(table: Mapping[str, Any]) -> ManagerConfig:
    unknown = sorted(table.keys() - {f.name for f in fields(ManagerConfig)})
    if unknown:
        raise BadConfig(f"[manager]: nothing is called {unknown[0]!r}")
    given = dict(table)
    for name in ("folder", "site"):
        given[name] = _folder(given.get(name))
    if isinstance(given.get("native"), str):
        raise BadConfig("[manager]: `native` must be a list of options")
    given["native"] = tuple(map(str, given.get("native", ())))
    made = ManagerConfig(**given)
    if made.on_drain not in ("wait", "leave"):
        raise BadConfig(f"[manager]: on_drain is {made.on_drain!r}, not wait or leave")
    return made


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadConfig(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadConfig(f"{path} is not TOML: {error}") from error


def _server(address: str | None) -> str:
    if not address:
        raise BadConfig("no server is named: give --server http://…")
    if not address.startswith(("http://", "https://")):
        raise BadConfig(f"the server's address {address!r} must start with http:// or https://")
    return address.rstrip("/")


def _token(token: str | None, file: str | Path | None) -> tuple[str, Path | None]:
    path = None if file is None else Path(file).resolve()
    if token is None and path is not None:
        try:
            token = path.read_text().strip()
        except OSError as error:
            raise BadConfig(f"the token file {path} cannot be read: {error.strerror}") from error
    if not token:
        raise BadConfig(
            "no credential: give --token-file FILE, or set GRISTMILL_WORKER_TOKEN; "
            "an administrator makes one on the workers' page"
        )
    return token, path


def _folder(path: str | Path | None) -> Path | None:
    return None if path is None else Path(path).resolve()


def _default_work(name: str, cache: Path | None, folder: Path | None) -> Path:
    """Beside the cache if there is one: files can then be linked and moved, not copied."""
    if folder is not None:
        return folder / f"worker-{name}"
    if cache is not None:
        return cache.parent / f"worker-{name}"
    state = os.environ.get("XDG_STATE_HOME") or str(Path.home() / ".local/state")
    return Path(state) / "gristmill" / f"worker-{name}"


def _memory_mb() -> int:
    whole = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(whole * 0.9) // 2**20


def _environments(table: Mapping[str, Any], python: str) -> tuple[EnvironmentConfig, ...]:
    entries = table.get("environment")
    if entries is None:
        return (EnvironmentConfig(executable=(python, "-m", "gristmill.runtime")),)
    found = []
    for number, entry in enumerate(entries):
        executable = entry.get("executable")
        if not executable or isinstance(executable, str):
            raise BadConfig(f"environment {number + 1}: `executable` must be a list of words")
        found.append(
            EnvironmentConfig(
                executable=tuple(map(str, executable)),
                name=entry.get("name"),
                version=entry.get("version"),
                bind=tuple(str(Path(path).resolve()) for path in entry.get("bind", ())),
            )
        )
    return tuple(found)
