"""What is asked of a simulated farm: jobs, whose they are, and how large the farm is."""

from __future__ import annotations

from dataclasses import dataclass, field

from backend.scheduler.core.model import Right


class BadLoadError(Exception):
    """A load or a farm cannot be simulated; the message says what, where, and what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """One job: a block in `slots` parts that may run apart from each other.

    Gristmill's core gives slots one by one, so a parallel job is `slots` parts of the same run
    time; it is over when the last of them is.
    """

    number: int  #: its own within the load
    user: str
    submitted: float  #: seconds
    seconds: float  #: run time of each part, above 0
    slots: int  #: at least 1

    @property
    def slot_seconds(self) -> float:
        """The work that it is."""
        return self.slots * self.seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Jobs in the order of their submission, and what the source said about them."""

    name: str
    jobs: tuple[Job, ...]
    left_out: int = 0  #: records that no job could be made of
    processors: int | None = None  #: of the machine that the trace comes from, if it says

    @property
    def users(self) -> tuple[str, ...]:
        """Everybody who submits, sorted."""
        return tuple(sorted({job.user for job in self.jobs}))

    @property
    def slot_seconds(self) -> float:
        """All the work."""
        return sum(job.slot_seconds for job in self.jobs)


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """The simulated farm: equal workers with one queue, and what each user may hold of it."""

    workers: int
    slots_per_worker: int
    right: Right  #: of every user not named in `rights`
    rights: dict[str, Right] = field(default_factory=dict)

    @property
    def slots(self) -> int:
        """All slots."""
        return self.workers * self.slots_per_worker

    def right_of(self, user: str) -> Right:
        """Return what a user may hold."""
        return self.rights.get(user, self.right)
