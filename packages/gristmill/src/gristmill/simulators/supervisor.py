"""The one process of a farm: starts jobs, watches their limits, gathers what they used, ends.

Commands start it when it is not there; it goes by itself when nothing is left that could run.
If it dies, the next one watches on over what still runs.
"""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from gristmill.simulators.farm import (
    Ending,
    Farm,
    Job,
    State,
    edge_state,
    end_waiting,
    source_folder,
)
from gristmill.simulators.frontend import FrontEnd, load

TICK = 0.02
PATIENCE = 2.0  #: seconds without anything to run after which it ends
LOOK = 0.2  #: seconds between looks at memory
PAGE = os.sysconf("SC_PAGE_SIZE")


def ensure(root: Path) -> None:
    """Start a supervisor unless one is there, or nothing is to be done."""
    with _lock_file(root) as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return
    code = (
        f"import sys; sys.path.insert(0, {source_folder()!r}); "
        f"from gristmill.simulators import supervisor; supervisor.main({str(root)!r})"
    )
    subprocess.Popen(
        [sys.executable, "-S", "-E", "-c", code],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=(root / "supervisor.log").open("ab"),
        start_new_session=True,
        cwd="/",
    )


def stop(root: Path) -> None:
    """End the farm's supervisor and every job that it runs."""
    pid = root / "supervisor.pid"
    if pid.exists():
        with _lock_file(root) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                _signal(int(pid.read_text(encoding="ascii")), signal.SIGTERM)
                fcntl.flock(lock, fcntl.LOCK_EX)
    farm = Farm(root)
    for job in farm.unfinished():
        if job.pid:
            _signal_group(job.pid, signal.SIGKILL)
    farm.close()


def _lock_file(root: Path) -> IO[bytes]:
    return (root / "supervisor.lock").open("ab")


def main(root: str) -> None:
    """Supervise until nothing is left to do."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    supervisor = Supervisor(Farm(Path(root)))
    while True:
        with _lock_file(Path(root)) as lock:
            if not _locked(lock):
                return
            (Path(root) / "supervisor.pid").write_text(str(os.getpid()), encoding="ascii")
            supervisor.run()
        # a command that still saw the lock has left its job to us
        if not Path(root).exists() or supervisor.farm.version == supervisor.known:
            return


def _locked(lock: IO[bytes]) -> bool:
    """Whether the lock is ours; a command that looks at it holds it for a moment."""
    for _ in range(25):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(TICK)
        else:
            return True
    return False


@dataclass(slots=True)
class _Late:
    """Output that is still to appear where it belongs."""

    due: float
    source: Path
    target: Path
    append: bool


class Supervisor:
    """The loop, and the little it remembers between two rounds."""

    def __init__(self, farm: Farm) -> None:
        self.farm = farm
        self.front: FrontEnd = load(farm.settings.manager)
        self.jobs: dict[str, Job] = {}
        self.known = -1
        self.children: set[int] = set()
        self.killed: dict[str, float] = {}  # key -> when the polite signal was sent
        self.late: list[_Late] = []
        self.looked = 0.0  # when memory was last looked at

    def run(self) -> None:
        quiet_since = time.time()
        while self.farm.root.exists():
            now = time.time()
            self.round(now)
            if self.busy(now):
                quiet_since = now
            elif now - quiet_since > PATIENCE:
                return
            time.sleep(TICK)

    def busy(self, now: float) -> bool:
        """Whether something runs, or will without another command."""
        return bool(self.late) or any(
            job.pid is not None or (self._may_start(job, job.begin or now) and self._fits(job))
            for job in self.jobs.values()
            if not job.is_array
        )

    def round(self, now: float) -> None:
        self._deliver(now)
        ended = self._reap()
        changed = self.farm.version != self.known
        look = now - self.looked > LOOK
        if not (changed or ended or self._due(now, look)):
            return
        if look:
            self.looked = now
        with self.farm.transaction():
            if changed:
                self.jobs = {job.key: job for job in self.farm.unfinished()}
                self.known = self.farm.version
            for pid, status, cpu, peak in ended:
                self._finish(pid, status, cpu, peak, now)
            for job in list(self.jobs.values()):
                if job.pid is not None:
                    self._watch(job, now, look)
            self._resolve(now)
            self._start(now)

    def _due(self, now: float, look: bool) -> bool:
        """Whether time alone asks for a round."""
        return bool(self.killed) or any(
            (job.pid is not None and look and (job.memory or job.pid not in self.children))
            or (job.pid is not None and _overdue(job, now))
            or (job.begin and job.begin <= now and job.pid is None and not job.holds)
            for job in self.jobs.values()
        )

    # -- what runs

    def _reap(self) -> list[tuple[int, int, float, int]]:
        found = []
        for pid in list(self.children):
            done, status, usage = os.wait4(pid, os.WNOHANG)
            if done:
                self.children.discard(pid)
                cpu = usage.ru_utime + usage.ru_stime
                found.append((pid, status, cpu, usage.ru_maxrss * 1024))
        return found

    def _finish(self, pid: int, status: int, cpu: float, peak: int, now: float) -> None:
        job = next((job for job in self.jobs.values() if job.pid == pid), None)
        if job is None:
            return
        _signal_group(pid, signal.SIGKILL)  # what it left behind
        if os.WIFSIGNALED(status):
            job.signal = os.WTERMSIG(status)
        else:
            job.code = os.WEXITSTATUS(status)
        job.cpu, job.peak = cpu, max(peak, job.peak)
        self._end(job, Ending(job.kill or Ending.EXIT), now)

    def _end(self, job: Job, ending: Ending, now: float) -> None:
        job.state, job.ending, job.ended, job.pid = State.ENDED, ending, now, None
        self.killed.pop(job.key, None)
        self._hand_over(job, now)
        self.farm.save(job)
        self.jobs.pop(job.key, None)

    def _watch(self, job: Job, now: float, look: bool) -> None:
        pid = job.pid
        assert pid is not None
        if pid not in self.children and not Path(f"/proc/{pid}").exists():
            self._end(job, Ending.NODE, now)
            return
        if job.signals:
            for number in job.signals:
                _signal_group(pid, signal.Signals(number))
            job.signals = []
            self.farm.save(job)
        if not job.kill:
            job.kill = self._exceeded(job, pid, now, look)
            if job.kill:
                self.farm.save(job)
        if job.kill:
            self._kill(job, pid, now)

    def _exceeded(self, job: Job, pid: int, now: float, look: bool) -> str:
        if _overdue(job, now):
            return Ending.WALLTIME
        if look and job.memory and self.front.kills_for_memory:
            job.peak = max(job.peak, _resident(pid))
            if job.peak > job.memory:
                return Ending.MEMORY
        return ""

    def _kill(self, job: Job, pid: int, now: float) -> None:
        if job.key not in self.killed:
            self.killed[job.key] = now
            note = self.front.kill_note(job, now)
            if note:
                with self._spool(job, "err" if job.stderr else "out").open("a") as out:
                    out.write(note)
            hard = job.kill == Ending.MEMORY
            _signal_group(pid, signal.SIGKILL if hard else signal.SIGTERM)
            _signal_group(pid, signal.SIGCONT)
        elif now - self.killed[job.key] > self.farm.settings.grace:
            _signal_group(pid, signal.SIGKILL)

    # -- what waits

    def _may_start(self, job: Job, now: float) -> bool:
        return (
            job.state is State.WAITING
            and not job.holds
            and not job.edges
            and not job.is_array
            and (job.begin or 0) <= now
        )

    def _fits(self, job: Job) -> bool:
        return job.cores <= self.farm.settings.cores

    def _resolve(self, now: float) -> None:
        """Settle dependencies; what can never start is ended or left, as the manager does."""
        for job in list(self.jobs.values()):
            if job.state is not State.WAITING or not job.edges:
                continue
            states = {edge: edge_state(edge[0], self._targets(edge[1])) for edge in job.edges}
            if False in states.values():
                self._hopeless(job, now)
            elif left := [edge for edge, state in states.items() if state is None]:
                if len(left) < len(job.edges):
                    job.edges = left
                    self.farm.save(job)
            else:
                job.edges = []
                self.farm.save(job)
        self._settle_arrays(now)

    def _targets(self, key: str) -> list[Job]:
        job = self.farm.get(key)
        if job is None or not job.is_array:
            return [job] if job else []
        return [member for member in self.farm.members(job.number) if not member.is_array]

    def _hopeless(self, job: Job, now: float) -> None:
        if self.front.ends_hopeless(job):
            end_waiting(job, Ending.DEPENDENCY, now)
            self.farm.save(job)
            del self.jobs[job.key]
        elif not job.never:
            job.never = True
            self.farm.save(job)

    def _settle_arrays(self, now: float) -> None:
        """An array ends with its last element."""
        for array in [job for job in self.jobs.values() if job.is_array]:
            if any(job.array == array.key for job in self.jobs.values()):
                continue
            members = [job for job in self.farm.members(array.number) if not job.is_array]
            bad = next((job for job in members if not job.ok), None)
            array.ending = bad.ending if bad else Ending.EXIT
            array.code = 0 if bad is None else max(1, bad.code or 1)
            array.started = min((j.started for j in members if j.started), default=None)
            array.state, array.ended = State.ENDED, now
            self.farm.save(array)
            del self.jobs[array.key]

    def _start(self, now: float) -> None:
        running = [job for job in self.jobs.values() if job.pid is not None]
        free = self.farm.settings.cores - sum(
            job.cores for job in running if job.state is State.RUNNING
        )
        for job in list(self.jobs.values()):
            if free <= 0:
                return
            if not self._may_start(job, now) or job.cores > free:
                continue
            if job.throttle and self._running_of(job.number) >= job.throttle:
                continue
            self._launch(job, now)
            free -= job.cores

    def _running_of(self, number: int) -> int:
        return sum(job.number == number and job.pid is not None for job in self.jobs.values())

    def _launch(self, job: Job, now: float) -> None:
        environment = {
            **self.farm.environment(job.number),
            **self.front.environment(self.farm, job),
        }
        job.stdin, job.stdout, job.stderr = self.front.files(self.farm, job, environment)
        job.started, job.state = now, State.RUNNING
        try:
            job.pid = self._spawn(job, environment)
        except OSError as error:
            self._spool(job, "err" if job.stderr else "out").write_text(f"{error}\n")
            job.code = 127
            self._end(job, Ending.LAUNCH, now)
            return
        self.children.add(job.pid)
        self.farm.save(job)

    def _spawn(self, job: Job, environment: Mapping[str, str]) -> int:
        direct = not (self.front.spools or self.farm.settings.lag)
        out = Path(job.stdout) if direct else self._spool(job, "out")
        mode = "ab" if direct and job.append else "wb"
        with Path(job.stdin).open("rb") as stdin, out.open(mode) as stdout:
            if not job.stderr:
                return self._process(job, environment, stdin, stdout, stdout)
            err = Path(job.stderr) if direct else self._spool(job, "err")
            with err.open(mode) as stderr:
                return self._process(job, environment, stdin, stdout, stderr)

    def _process(
        self,
        job: Job,
        environment: Mapping[str, str],
        stdin: IO[bytes],
        stdout: IO[bytes],
        stderr: IO[bytes],
    ) -> int:
        argv = [str(self.farm.script(job.number)), *job.arguments]
        limit = job.memory if self.front.limits_address_space else None
        if limit:
            argv = ["/bin/sh", "-c", f'ulimit -v {limit // 1024}; exec "$0" "$@"', *argv]
        child = subprocess.Popen(
            argv,
            stdin=stdin,
            stdout=stdout,
            stderr=stderr,
            cwd=job.directory,
            env=dict(environment),
            start_new_session=True,
        )
        child.returncode = 0  # we reap it ourselves, to see what it used
        return child.pid

    # -- output

    def _spool(self, job: Job, kind: str) -> Path:
        direct = not (self.front.spools or self.farm.settings.lag)
        if direct:
            return Path(job.stderr if kind == "err" and job.stderr else job.stdout)
        folder = self.farm.root / "spool"
        folder.mkdir(exist_ok=True)
        return folder / f"{job.key}.{kind}"

    def _hand_over(self, job: Job, now: float) -> None:
        """Bring spooled output to its place: at once, or after the lag."""
        if not (self.front.spools or self.farm.settings.lag):
            return
        due = now + self.farm.settings.lag
        for kind, target in (("out", job.stdout), ("err", job.stderr)):
            source = self._spool(job, kind)
            if target and source.exists():
                self.late.append(_Late(due, source, Path(target), job.append))
        if not self.farm.settings.lag:
            self._deliver(now)

    def _deliver(self, now: float) -> None:
        for late in [late for late in self.late if late.due <= now]:
            self.late.remove(late)
            try:
                with late.target.open("ab" if late.append else "wb") as out:
                    out.write(late.source.read_bytes())
            except OSError as error:
                print(f"{late.target}: {error}", file=sys.stderr)  # noqa: T201 - its log
            late.source.unlink(missing_ok=True)


def _overdue(job: Job, now: float) -> bool:
    return bool(job.walltime and job.started and now - job.started > job.walltime)


def _signal(pid: int, number: signal.Signals) -> None:
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except (ProcessLookupError, PermissionError):
        return


def _resident(session: int) -> int:
    """Bytes of memory that the processes of a session hold together."""
    total = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it has just ended
        if int(fields[3]) == session:
            total += int(fields[21]) * PAGE
    return total
