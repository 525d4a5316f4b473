"""Small farms for tests of the core: short ways to say what there is and what happens."""

from __future__ import annotations

from backend.scheduler.core.events import (
    Event,
    Finished,
    Outcome,
    QueueSet,
    Started,
    Submitted,
    WorkerSet,
)
from backend.scheduler.core.farm import Farm
from backend.scheduler.core.instructions import (
    Instruction,
    Lease,
    SetBlock,
    SetExperiment,
)
from backend.scheduler.core.model import (
    BlockKind,
    BlockSpec,
    Environment,
    Failure,
    FailureKind,
    Queue,
    Right,
    Submission,
    Worker,
    WorkerState,
)

PYTHON: Environment = ("Python", "3.11")
OTHER: Environment = ("R", "4")


def queue(
    id: str = "Q1", slots: int = 5, cores: int = 1, memory: int = 100, **more: object
) -> Queue:
    return Queue(
        id=id,
        name=id,
        memory_mb=memory,
        time_seconds=3600,
        slots_per_worker=slots,
        cores_per_slot=cores,
        environments=frozenset({PYTHON, OTHER}),
        **more,  # type: ignore[arg-type]
    )


def worker(
    id: str = "W1",
    cores: int = 8,
    memory: int = 8000,
    environments: tuple[Environment, ...] = (PYTHON,),
    state: WorkerState = WorkerState.ONLINE,
    shares: dict[str, int] | None = None,
) -> Worker:
    return Worker(
        id=id,
        name=f"name of {id}",
        cores=cores,
        memory_mb=memory,
        environments=frozenset(environments),
        state=state,
        shares=shares or {},
    )


def block(
    id: str,
    *inputs: str,
    queue: str = "Q1",
    slots: int = 1,
    key: str | None = None,
    environment: Environment = PYTHON,
    attempts_before: int = 0,
) -> BlockSpec:
    return BlockSpec(
        id=id,
        name=f"block {id}",
        kind=BlockKind.BLOCK,
        inputs=inputs,
        queue=queue,
        environment=environment,
        slots=slots,
        key=key or f"key of {id}",
        attempts_before=attempts_before,
    )


def submitted(
    experiment: str,
    *blocks: BlockSpec,
    user: str = "ann",
    rights: dict[str, int] | dict[str, Right] | None = None,
    at: float = 0.0,
    cached: tuple[str, ...] = (),
) -> Submitted:
    given = rights if rights is not None else {"Q1": 100, "Q2": 100}
    return Submitted(
        submission=Submission(
            experiment=experiment,
            user=user,
            rights={
                name: right if isinstance(right, Right) else Right(slots=right)
                for name, right in given.items()
            },
            blocks=blocks,
            submitted_at=at,
        ),
        cached=frozenset(cached),
    )


def started(attempt: str, worker: str = "W1") -> Started:
    return Started(attempt=attempt, worker=worker)


def ended(
    attempt: str,
    outcome: Outcome = Outcome.DONE,
    worker: str = "W1",
    kind: FailureKind | None = None,
) -> Finished:
    failure = Failure(kind=kind, message=str(kind)) if kind else None
    if kind:
        outcome = Outcome.FAILED
    return Finished(attempt=attempt, worker=worker, outcome=outcome, failure=failure)


class Story:
    """A farm that things happen to; a pass follows each of them."""

    def __init__(self, *events: Event, policy: str = "fifo", **settings: object) -> None:
        self.farm = Farm(policy=policy, **settings)  # type: ignore[arg-type]
        self.now = 1000.0
        for event in events:
            self.farm.handle(event, self.now)
        self.farm.schedule(self.now)

    def happens(self, *events: Event, at: float | None = None) -> list[Instruction]:
        """Let things happen one after the other, a pass after each; return all that follows."""
        return [i for event in events for i in self.at_once(event, at=at)]

    def at_once(self, *events: Event, at: float | None = None) -> list[Instruction]:
        """Let things happen in one batch, with one pass after them."""
        self.now = at if at is not None else self.now
        out: list[Instruction] = []
        for event in events:
            out += self.farm.handle(event, self.now)
        return out + self.farm.schedule(self.now)


def small_farm(*, slots: int = 5, policy: str = "fifo", **settings: object) -> Story:
    """One worker with `slots` slots of queue Q1."""
    return Story(
        QueueSet(queue=queue(slots=slots)),
        WorkerSet(worker=worker(cores=100, memory=100_000)),
        policy=policy,
        **settings,
    )


def leased(out: list[Instruction]) -> list[str]:
    """Return the attempts that were leased, in order."""
    return [i.attempt for i in out if isinstance(i, Lease)]


def states(out: list[Instruction]) -> list[str]:
    """Return what became of blocks and experiments, in order: "b1 queued", "e1 running"."""
    return [
        f"{i.block if isinstance(i, SetBlock) else i.experiment} {i.state}"
        for i in out
        if isinstance(i, SetBlock | SetExperiment)
    ]
