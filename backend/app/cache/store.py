"""The files of the cache: stored under their content's SHA-256, never under user text.

    <cache>/ab/cd/abcd…        finished files, read only, shared by all that have that content
    <cache>/incoming/<attempt>/ what an attempt has written or uploaded so far
    <cache>/proof/              nonces by which a worker and the server find out that they share it

Blocking calls: async callers use a thread. Knows no database; what is referenced is told to it.
While a file is being accepted its incoming name is a second hard link, so that cleaning, which
removes only files with one link, never takes a file whose row is not committed yet.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO

BLOCK = 1 << 20  #: bytes read at a time

_HASH = re.compile(r"[0-9a-f]{64}")
_ATTEMPT = re.compile(r"[0-9A-Za-z][0-9A-Za-z.-]{0,79}")
_NAME = re.compile(r"[0-9A-Za-z_][0-9A-Za-z_.-]{0,199}")


class StoreError(Exception):
    """Something about a file of the cache is wrong; the message says what and where."""


class BadName(StoreError):
    """A name that cannot be one of ours."""


class Missing(StoreError):
    """The file is not there."""


class Corrupt(StoreError):
    """The file is not what its hash or size says."""


class WrongOffset(StoreError):
    """An upload does not go on where the file ends."""

    def __init__(self, have: int) -> None:
        super().__init__(f"the file has {have} bytes; go on from there")
        self.have = have


class Busy(StoreError):
    """Somebody else writes the file."""


def stored_path(sha256: str) -> str:
    """Return where a file of this content lies, relative to the cache folder."""
    if not _HASH.fullmatch(sha256):
        raise BadName(f"not a SHA-256 in hexadecimal: {sha256[:80]!r}")
    return f"{sha256[:2]}/{sha256[2:4]}/{sha256}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What the cache folder holds."""

    files: int
    bytes: int
    incoming_bytes: int
    free_bytes: int  #: on its file system


@dataclass(slots=True)
class CacheStore:
    """The cache folder."""

    root: Path
    _verified: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for folder in (self.root, self.root / "incoming", self.root / "proof"):
            folder.mkdir(parents=True, exist_ok=True)

    # ---- reading ----

    def path(self, sha256: str) -> Path:
        """Return the absolute path of a stored file, whether it exists or not."""
        return self.root / stored_path(sha256)

    def has(self, sha256: str, size: int) -> bool:
        """Whether a file of that name and size is there."""
        try:
            return self.path(sha256).stat().st_size == size
        except FileNotFoundError:
            return False

    def verified(self, sha256: str, size: int) -> Path:
        """Return the path of a stored file whose content was checked against its name.

        A file that has not changed since its last check (inode, size, time) is not read again.
        Raises Missing or Corrupt.
        """
        path = self.path(sha256)
        try:
            stat = path.stat()
        except FileNotFoundError:
            raise Missing(f"{stored_path(sha256)} is not in the cache") from None
        if stat.st_size != size:
            raise Corrupt(f"{stored_path(sha256)} has {stat.st_size} bytes instead of {size}")
        mark = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
        if self._verified.get(sha256) != mark:
            if hash_file(path) != sha256:
                raise Corrupt(f"{stored_path(sha256)} does not have the content it is named for")
            self._remember(sha256, mark)
        return path

    def _remember(self, sha256: str, mark: tuple[int, int, int]) -> None:
        if len(self._verified) >= 100_000:
            self._verified.clear()
        self._verified[sha256] = mark

    # ---- what comes in ----

    def incoming(self, attempt: str, name: str | None = None) -> Path:
        """Return the folder, or a file in it, where an attempt's outputs arrive."""
        if not _ATTEMPT.fullmatch(attempt) or ".." in attempt:
            raise BadName(f"not an attempt: {attempt[:100]!r}")
        folder = self.root / "incoming" / attempt
        if name is None:
            return folder
        if not _NAME.fullmatch(name):
            raise BadName(f"not a file name for an output: {name[:100]!r}")
        return folder / name

    def received(self, attempt: str, name: str) -> int:
        """Return how many bytes of an upload have arrived."""
        path = self.incoming(attempt, name)
        return path.stat().st_size if path.is_file() and not path.is_symlink() else 0

    @contextmanager
    def appending(self, attempt: str, name: str, offset: int) -> Iterator[BinaryIO]:
        """Open an upload to go on at `offset`; raises WrongOffset when it does not end there.

        `offset` 0 starts anew. Only one writer at a time holds the file.
        """
        path = self.incoming(attempt, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(path, flags, 0o640), "wb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise Busy("another upload of this file is under way") from None
            have = file.seek(0, os.SEEK_END)
            if offset > have:
                raise WrongOffset(have)
            file.truncate(offset)
            file.seek(offset)
            yield file

    def accept(self, attempt: str, name: str, *, size: int, sha256: str) -> str:
        """Check an attempt's file and put it into its place; return its relative path.

        The incoming name stays as a second link until `forget(attempt)`, to be called when the
        rows that name the file are committed. Raises Missing, Corrupt or BadName.
        """
        source = self.incoming(attempt, name)
        self._check_incoming(source, name, size, sha256)
        place = self.path(sha256)
        with self._locked():
            place.parent.mkdir(parents=True, exist_ok=True)
            aside = place.with_name(f"{sha256}.{attempt}")
            aside.unlink(missing_ok=True)
            os.link(source, aside)
            aside.replace(place)
        stat = place.stat()
        self._remember(sha256, (stat.st_ino, stat.st_size, stat.st_mtime_ns))
        return stored_path(sha256)

    @staticmethod
    def _check_incoming(source: Path, name: str, size: int, sha256: str) -> None:
        if source.is_symlink() or source.parent.is_symlink() or not source.is_file():
            raise Missing(f"the output file {name!r} has not arrived")
        have = source.stat().st_size
        if have != size:
            raise Corrupt(f"the output file {name!r} has {have} bytes instead of {size}")
        found = hash_file(source)
        if found != sha256:
            raise Corrupt(f"the output file {name!r} has the SHA-256 {found} instead of {sha256}")
        source.chmod(0o440)
        _flush(source)

    def forget(self, attempt: str) -> None:
        """Remove what an attempt left in `incoming`."""
        shutil.rmtree(self.incoming(attempt), ignore_errors=True)

    def put(self, chunks: Iterable[bytes]) -> tuple[str, int]:
        """Store a stream under the hash it turns out to have; return (SHA-256, size)."""
        folder = self.root / "incoming"
        aside = folder / f"put-{os.getpid()}-{time.monotonic_ns()}-{id(chunks)}"
        sha, size = hashlib.sha256(), 0
        try:
            with aside.open("xb") as file:
                for chunk in chunks:
                    sha.update(chunk)
                    size += len(chunk)
                    file.write(chunk)
            self.adopt(aside, sha.hexdigest())
        finally:
            aside.unlink(missing_ok=True)
        return sha.hexdigest(), size

    def adopt(self, source: Path, sha256: str) -> str:
        """Move a file, already checked, into its place; return its relative path."""
        place = self.path(sha256)
        source.chmod(0o440)
        _flush(source)
        with self._locked():
            place.parent.mkdir(parents=True, exist_ok=True)
            source.replace(place)
        return stored_path(sha256)

    def take_link(self, source: Path, sha256: str, size: int) -> bool:
        """Put a file from elsewhere into its place, by a hard link or else a copy.

        False when it is not there or not what it should be.
        """
        try:
            if source.stat().st_size != size or hash_file(source) != sha256:
                return False
            with self._locked():
                self._link_or_copy(source, self.path(sha256))
        except FileNotFoundError:
            return False
        return True

    def _link_or_copy(self, source: Path, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        aside = place.with_name(f"{place.name}.link")
        aside.unlink(missing_ok=True)
        try:
            os.link(source, aside)
        except OSError:  # another file system
            shutil.copyfile(source, aside)
        aside.replace(place)

    # ---- cleaning ----

    def remove(self, hashes: Iterable[str], *, younger_stay: float = 0.0) -> int:
        """Remove files that nothing refers to; return the bytes freed.

        Files that are being accepted (two links), or that came within the last `younger_stay`
        seconds, stay.
        """
        freed = 0
        for sha256 in hashes:
            freed += self._remove_one(self.path(sha256), time.time() - younger_stay)
        return freed

    def _remove_one(self, path: Path, not_after: float) -> int:
        with self._locked():
            try:
                stat = path.stat()
            except FileNotFoundError:
                return 0
            if stat.st_nlink > 1 or stat.st_ctime > not_after:
                return 0
            path.unlink()
            self._verified.pop(path.name, None)
            return stat.st_size

    def stored(self) -> Iterator[tuple[str, int, float]]:
        """Yield (SHA-256, size, time of arrival) of every stored file."""
        for path in self.root.glob("[0-9a-f][0-9a-f]/[0-9a-f][0-9a-f]/*"):
            if _HASH.fullmatch(path.name):
                stat = path.stat()
                yield path.name, stat.st_size, stat.st_ctime

    def abandoned(self, *, older_than: float, live: frozenset[str]) -> list[str]:
        """Return the attempts (and half-made puts) in `incoming` that nobody will finish."""
        before = time.time() - older_than
        return sorted(
            entry.name
            for entry in os.scandir(self.root / "incoming")
            if entry.name not in live and entry.stat(follow_symlinks=False).st_mtime < before
        )

    def clear_abandoned(self, names: Iterable[str]) -> None:
        """Remove entries that `abandoned` named."""
        for name in names:
            path = self.root / "incoming" / name
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)

    def usage(self) -> Usage:
        """Count files and bytes."""
        sizes = [size for _, size, _ in self.stored()]
        arriving = (p for p in (self.root / "incoming").rglob("*") if p.is_file())
        return Usage(
            files=len(sizes),
            bytes=sum(sizes),
            incoming_bytes=sum(p.stat().st_size for p in arriving if p.stat().st_nlink == 1),
            free_bytes=shutil.disk_usage(self.root).free,
        )

    # ---- proof of one shared folder ----

    def read_proof(self, nonce: str) -> bool:
        """Whether the worker's file is here too; answers it with a file of our own beside it.

        The worker wrote `proof/<nonce>` with the nonce as content; we write
        `proof/<nonce>.server`, so that it knows that we can write where it reads.
        """
        if not re.fullmatch(r"[0-9A-Za-z_-]{16,100}", nonce):
            return False
        path = self.root / "proof" / nonce
        try:
            if path.is_symlink() or path.stat().st_size > 200:
                return False
            if path.read_text().strip() != nonce:
                return False
        except (OSError, UnicodeDecodeError):
            return False
        path.with_name(f"{nonce}.server").write_text(nonce)
        return True

    def clear_proofs(self, *, older_than: float) -> None:
        """Remove proofs that were read long ago."""
        before = time.time() - older_than
        for entry in os.scandir(self.root / "proof"):
            if entry.stat(follow_symlinks=False).st_mtime < before:
                Path(entry.path).unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        with (self.root / ".lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def hash_file(path: Path) -> str:
    """Return the SHA-256 of a file's content, in hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _flush(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
