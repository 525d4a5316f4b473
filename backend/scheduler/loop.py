"""The asyncio shell around the core: events in, one commit, then tell.

One consumer takes whatever events have come in, lets the core decide about all of them, commits
the decisions in one transaction, and only then answers, publishes and wakes workers. When a
commit fails the core is ahead of the database: it is dropped and restored from the store, by the
same code as after a restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Collection, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from importlib.metadata import entry_points
from typing import Any

from backend.scheduler.board import Board, Work
from backend.scheduler.core import policies
from backend.scheduler.core.events import (
    Event,
    Finished,
    Outcome,
    Planned,
    Submitted,
    Ticked,
    WorkerHeard,
    WorkerLost,
)
from backend.scheduler.core.explain import Explanation
from backend.scheduler.core.farm import Farm
from backend.scheduler.core.instructions import Close, Instruction, Lease, PlanSplit, Refuse
from backend.scheduler.core.model import FailureKind, WorkerState
from backend.scheduler.core.story import Line
from backend.scheduler.ports import (
    AlwaysLeader,
    Bus,
    Clock,
    Leadership,
    LeadershipLostError,
    MissingFromCacheError,
    Progress,
    PublishedEvent,
    Splitter,
    Store,
    SystemClock,
)

__all__ = ["Refusal", "Scheduler", "UnavailableError", "Work", "discover_policies"]

log = logging.getLogger(__name__)

BATCH = 2_000  #: events that one transaction takes at most, unless one caller brings more
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0  #: seconds between tries to come back
PROGRESS_SECONDS = 0.25  #: progress reports are gathered for so long
PLANS_AT_ONCE = 4


class UnavailableError(Exception):
    """The scheduler is not scheduling just now: starting, standing by, or coming back."""

    def __init__(self, why: str = "the scheduler is coming back; try again in a moment") -> None:
        super().__init__(why)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An event that changed nothing, and why: late, double, or not that worker's to say."""

    event: Event
    why: str


@dataclass(eq=False, slots=True)
class _Call:
    """Events that one caller brought, and where it waits for the answer."""

    events: tuple[Event, ...]
    answer: asyncio.Future[list[Refusal]]
    refusals: list[Refusal] = field(default_factory=list)

    def succeed(self) -> None:
        if not self.answer.done():
            self.answer.set_result(self.refusals)

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


@dataclass(slots=True)
class Tally:
    """What the loop has done since it started; for the administrator and for metrics."""

    events: int = 0
    instructions: int = 0
    passes: int = 0
    leases: int = 0
    leases_lost: int = 0  #: their worker went silent, or came back without them
    waited_seconds: float = 0.0  #: of all jobs, from their inputs' end to their lease
    refusals: int = 0
    commits: int = 0
    rebuilds: int = 0
    workers_lost: int = 0
    pass_seconds: float = 0.0
    commit_seconds: float = 0.0


def discover_policies() -> Mapping[str, policies.Policy]:
    """Return the built-in policies and those that installed packages offer.

    An entry point of the group `gristmill.policies` names a function from a
    `policies.Candidate` and the time to a sort key.
    """
    found = {entry.name: entry.load() for entry in entry_points(group="gristmill.policies")}
    return {**found, **policies.BUILT_IN}


class Scheduler:
    """Keeps the farm: the one object that the rest of the server talks to."""

    def __init__(
        self,
        store: Store,
        bus: Bus,
        splitter: Splitter,
        *,
        leadership: Leadership | None = None,
        clock: Clock | None = None,
        lease_seconds: float = 30.0,
        max_attempts: int = 3,
        policies: Mapping[str, policies.Policy] | None = None,
    ) -> None:
        self._store = store
        self._bus = bus
        self._splitter = splitter
        self._leadership: Leadership = leadership or AlwaysLeader()
        self._clock: Clock = clock or SystemClock()
        self.lease_seconds = lease_seconds
        self._max_attempts = max_attempts
        self._policies = policies if policies is not None else discover_policies()
        self._farm: Farm | None = None
        self._board = Board()
        self.tally = Tally()
        self._calls: deque[_Call] = deque()
        self._in_hand: list[_Call] = []
        self._progress: dict[str, Progress] = {}
        self._wake = asyncio.Event()
        self._ready = asyncio.Event()
        self._quiet = asyncio.Event()
        self._heard: dict[str, float] = {}  # worker -> monotonic
        self._unsaved: dict[str, float] = {}  # worker -> when it was seen, not written yet
        self._ready_since = 0.0
        self._plans: dict[str, asyncio.Task[None]] = {}
        self._plan_room = asyncio.Semaphore(PLANS_AT_ONCE)
        self._tasks: set[asyncio.Task[Any]] = set()

    # ---- life -----------------------------------------------------------------------------

    async def start(self, *, wait: bool = True) -> None:
        """Begin to schedule; with `wait`, return when this process leads and is restored."""
        main = self._spawn(self._live())
        self._spawn(self._watch())
        if wait:
            ready = self._spawn(self._ready.wait())
            await asyncio.wait({main, ready}, return_when=asyncio.FIRST_COMPLETED)
            ready.cancel()

    async def stop(self) -> None:
        """Stop scheduling; what is committed stays, callers that wait are told."""
        tasks = [*self._tasks, *self._plans.values()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._fall(UnavailableError("the scheduler has stopped"))
        await self._leadership.release()

    @property
    def ready(self) -> bool:
        """Whether this process leads and its farm is in step with the database."""
        return self._ready.is_set()

    async def settled(self) -> None:
        """Wait until no event and no plan is in hand; for tests."""
        while self._calls or self._in_hand or self._plans or not self.ready:
            self._quiet.clear()
            await self._quiet.wait()

    async def settled_progress(self) -> None:
        """Write the progress reports that are gathered, now; for tests."""
        self._wake.set()
        self._quiet.clear()
        await self._quiet.wait()

    # ---- what others call -----------------------------------------------------------------

    async def handle(self, *events: Event) -> list[Refusal]:
        """Let the core decide about events; return after the commit, with what it refused.

        Events of one call are decided together and in order. Raises UnavailableError when this
        process does not schedule just now, and whatever the store raised when these very events
        cannot be written.
        """
        if not self.ready:
            raise UnavailableError
        return await self._enqueue(events).answer

    async def next_work(self, worker: str, running: Collection[str], wait: float) -> Work:
        """Return what is new for a worker that has `running`, waiting up to `wait` seconds.

        `running` are all attempts that the worker was given and whose end it has not yet
        reported; one that is leased to it and not among them is given (again), so a lost
        answer costs nothing. Holds no database connection.
        """
        deadline = self._clock.monotonic() + wait
        while True:
            self.heard(worker)
            if not self.ready:
                raise UnavailableError
            await self._confirm_never_begun(worker, running)
            work = self._board.work(worker, running)
            left = deadline - self._clock.monotonic()
            if work or left <= 0:
                return work
            await self._board.wait(worker, left)

    def heard(self, worker: str) -> None:
        """Note that a worker spoke: it is not silent. One that was lost is taken back."""
        self._heard[worker] = self._clock.monotonic()
        self._unsaved[worker] = self._clock.now()
        farm = self._farm
        if farm is not None and self.ready and farm.worker_state(worker) is WorkerState.LOST:
            self._enqueue((WorkerHeard(worker=worker),))

    def cancels(self, worker: str, running: Collection[str] = ()) -> tuple[str, ...]:
        """Return the attempts among `running` that the worker must kill."""
        return self._board.cancels(worker, running)

    def leases(self, worker: str) -> tuple[Lease, ...]:
        """Return all open leases of a worker, as committed."""
        return self._board.leases(worker)

    def holds(self, attempt: str, worker: str) -> bool:
        """Say whether an attempt is open and leased to this worker, as committed."""
        return self._board.holds(attempt, worker)

    def progress(self, worker: str, attempt: str, fraction: float, message: str = "") -> bool:
        """Take a progress report; False when the attempt is not the worker's any more.

        Reports are gathered and written every quarter of a second, the latest of each attempt.
        """
        if not self._board.holds(attempt, worker):
            return False
        if not self._progress:
            asyncio.get_running_loop().call_later(PROGRESS_SECONDS, self._wake.set)
        self._progress[attempt] = Progress(attempt=attempt, fraction=fraction, message=message)
        return True

    def oldest_waiting(self) -> Mapping[str, float]:
        """Return, by queue, for how many seconds its oldest waiting job has waited."""
        return self._farm.oldest_waiting(self._clock.now()) if self._farm else {}

    def explain(self, block: str) -> Explanation | None:
        """Say why a live block is where it is; None if it is not live."""
        return self._farm.explain(block, self._clock.now()) if self._farm else None

    async def story(self, block: str) -> list[Line]:
        """Tell everything that happened to a block, in order; empty if unknown."""
        written = await self._store.history(block)
        remarks = self._farm.remarks(block) if self._farm else ()
        return sorted([*written, *remarks], key=lambda line: line.time)

    def state(self) -> dict[str, Any]:
        """Return the farm as the administrator sees it; plain JSON."""
        seen = dict(self._unsaved)
        farm = self._farm.state() if self._farm else {}
        return {"ready": self.ready, "tally": vars_of(self.tally), "seen": seen, **farm}

    # ---- the consumer ---------------------------------------------------------------------

    async def _live(self) -> None:
        """Lead, restore, consume; when anything breaks, come back after a pause."""
        pause = FIRST_PAUSE
        while True:
            try:
                await self._leadership.acquire()
                await self._rebuild()
                pause = FIRST_PAUSE
                await self._consume()
            except Exception as error:
                log.exception("the scheduler fell over and comes back in %.1f s", pause)
                self._fall(UnavailableError(f"the scheduler is coming back: {error}"))
                await self._release()
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def _release(self) -> None:
        try:
            await self._leadership.release()
        except Exception:
            log.exception("cannot let go of the leadership")

    async def _consume(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._calls:
                self._in_hand = self._take_batch()
                await self._carry_out(self._in_hand)
                self._in_hand = []
            await self._write_progress()
            self._quiet.set()

    def _take_batch(self) -> list[_Call]:
        batch: list[_Call] = []
        size = 0
        while self._calls and (not batch or size + len(self._calls[0].events) <= BATCH):
            batch.append(self._calls.popleft())
            size += len(batch[-1].events)
        return batch

    async def _carry_out(self, batch: list[_Call]) -> None:
        try:
            await self._decide_and_commit(batch)
        except LeadershipLostError:
            raise
        except Exception:
            # One caller's events may be at fault, or the connection: start from the database,
            # then let each caller stand for itself.
            log.exception("a batch of %d calls was not committed", len(batch))
            await self._rebuild()
            for call in batch:
                await self._carry_out_alone(call)

    async def _carry_out_alone(self, call: _Call) -> None:
        try:
            await self._decide_and_commit([call])
        except MissingFromCacheError as error:
            await self._rebuild()
            call.events = tuple(_without_keys(event, error.keys) for event in call.events)
            await self._carry_out_for_good(call)
        except LeadershipLostError:
            raise
        except Exception as error:
            call.fail(error)
            await self._rebuild()

    async def _carry_out_for_good(self, call: _Call) -> None:
        try:
            await self._decide_and_commit([call])
        except Exception as error:
            call.fail(error)
            await self._rebuild()

    async def _decide_and_commit(self, batch: list[_Call]) -> None:
        now = self._clock.now()
        began = self._clock.monotonic()
        instructions = self._decide(batch, now)
        decided = self._clock.monotonic()
        events = await self._commit(instructions, now)
        self.tally.passes += 1
        self.tally.pass_seconds += decided - began
        self.tally.commit_seconds += self._clock.monotonic() - decided
        self._announce(instructions, events)
        for call in batch:
            call.succeed()

    def _decide(self, batch: list[_Call], now: float) -> list[Instruction]:
        farm = self._the_farm()
        decided: list[Instruction] = []
        for call in batch:
            call.refusals = []
            for event in call.events:
                answer = farm.handle(event, now)
                call.refusals += [Refusal(event, i.why) for i in answer if isinstance(i, Refuse)]
                decided += answer
            self.tally.events += len(call.events)
            self.tally.refusals += len(call.refusals)
        return decided + farm.schedule(now)

    async def _commit(self, instructions: list[Instruction], now: float) -> list[PublishedEvent]:
        if not instructions:
            return []
        await self._leadership.check()
        events = await self._store.commit(instructions, now)
        self.tally.commits += 1
        self.tally.instructions += len(instructions)
        return events

    def _announce(self, instructions: list[Instruction], events: list[PublishedEvent]) -> None:
        self._board.apply(instructions)
        self._publish(events)
        for instruction in instructions:
            if isinstance(instruction, PlanSplit):
                self._plan(instruction.block, instruction.slots)
            elif isinstance(instruction, Lease):
                self.tally.leases += 1
                self.tally.waited_seconds += self._the_farm().waited(instruction.attempt)
            elif isinstance(instruction, Close) and _is_lost(instruction):
                self.tally.leases_lost += 1

    def _publish(self, events: list[PublishedEvent]) -> None:
        by_experiment: dict[str, list[PublishedEvent]] = {}
        for event in events:
            by_experiment.setdefault(event.experiment, []).append(event)
        for experiment, group in by_experiment.items():
            self._bus.publish(experiment, group)

    async def _write_progress(self) -> None:
        if not self._progress:
            return
        reports, self._progress = list(self._progress.values()), {}
        self._publish(await self._store.progress(reports, self._clock.now()))

    async def _rebuild(self) -> None:
        """Restore the farm from the database: at the start, and whenever they may differ."""
        self._ready.clear()
        self.tally.rebuilds += 1
        snapshot = await self._store.load()
        now = self._clock.now()
        farm = Farm.restore(snapshot, now, max_attempts=self._max_attempts, policies=self._policies)
        self._farm = farm
        self._board.reset(farm.leases(), farm.revoked())
        for block, slots in farm.unplanned():
            self._plan(block, slots)
        self._ready_since = self._clock.monotonic()
        self._ready.set()
        self._enqueue((Ticked(),))

    def _fall(self, error: Exception) -> None:
        self._ready.clear()
        self._farm = None
        for call in [*self._in_hand, *self._calls]:
            call.fail(error)
        self._in_hand = []
        self._calls.clear()

    def _the_farm(self) -> Farm:
        if self._farm is None:
            raise UnavailableError
        return self._farm

    def _enqueue(self, events: tuple[Event, ...]) -> _Call:
        call = _Call(events, asyncio.get_running_loop().create_future())
        # A caller that has gone, or that never waits, must not make an unheard error a warning.
        call.answer.add_done_callback(lambda f: f.cancelled() or f.exception())
        self._calls.append(call)
        self._wake.set()
        return call

    async def _confirm_never_begun(self, worker: str, running: Collection[str]) -> None:
        """End revoked leases that their worker, asking now, never received."""
        attempts = self._board.never_begun(worker, running)
        if attempts:
            await self.handle(
                *(
                    Finished(attempt=attempt, worker=worker, outcome=Outcome.CANCELLED)
                    for attempt in attempts
                )
            )

    # ---- splitting ------------------------------------------------------------------------

    def _plan(self, block: str, slots: int) -> None:
        if block not in self._plans:
            self._plans[block] = asyncio.create_task(self._plan_and_tell(block, slots))

    async def _plan_and_tell(self, block: str, slots: int) -> None:
        try:
            async with self._plan_room:
                ranges = await self._find_ranges(block, slots)
            await self._enqueue((Planned(block=block, ranges=ranges),)).answer
        except UnavailableError:
            log.info("the plan of block %s is made again after the restart", block)
        finally:
            del self._plans[block]
            self._quiet.set()

    async def _find_ranges(self, block: str, slots: int) -> tuple[tuple[int, int], ...]:
        try:
            return tuple(await self._splitter.plan(block, slots))
        except Exception:
            log.exception("block %s cannot be cut; it runs whole", block)
            return ()

    # ---- the timer ------------------------------------------------------------------------

    async def _watch(self) -> None:
        while True:
            await asyncio.sleep(min(1.0, self.lease_seconds / 4))
            try:
                await self.tick()
            except Exception:
                log.exception("the timer's work failed; it is tried again")

    async def tick(self) -> None:
        """Do what time alone brings: lose silent workers, age the waiting, save what was seen."""
        if not self.ready:
            return
        silent = self.silent_workers()
        self.tally.workers_lost += len(silent)
        self._enqueue((*(WorkerLost(worker=worker) for worker in silent), Ticked()))
        await self._remember()

    def silent_workers(self) -> list[str]:
        """Return the workers that should speak and have not, for longer than a lease."""
        now = self._clock.monotonic()
        return [
            worker
            for worker in self._the_farm().speaking_workers()
            if now - max(self._heard.get(worker, 0.0), self._ready_since) > self.lease_seconds
        ]

    async def _remember(self) -> None:
        seen, self._unsaved = self._unsaved, {}
        await self._store.remember(seen, self._the_farm().recent_use())

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _without_keys(event: Event, keys: frozenset[str]) -> Event:
    if isinstance(event, Submitted):
        return replace(event, cached=event.cached - keys)
    return event


def _is_lost(close: Close) -> bool:
    return close.failure is not None and close.failure.kind is FailureKind.LOST


def vars_of(tally: Tally) -> dict[str, float]:
    """Return the figures of a tally."""
    return {name: getattr(tally, name) for name in Tally.__slots__}
