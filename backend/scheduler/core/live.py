"""What the farm knows: queues, workers, users, and everything that is live. State, no rules.

The rules that change it are in decide.py (events) and place.py (the pass).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from backend.scheduler.core import blocks, experiments, use
from backend.scheduler.core.ledgers import Account, OpenLease, Site
from backend.scheduler.core.model import (
    BlockSpec,
    Environment,
    Failure,
    Queue,
    Range,
    Right,
    Submission,
    Worker,
    WorkerState,
)
from backend.scheduler.core.policies import Age, Policy
from backend.scheduler.core.waiting import Lane, Line

REMEMBERED_KEYS = 50_000  #: of what was finished lately, for submissions that crossed with it
REMARKS = 100  #: kept of one block


@dataclass(eq=False, slots=True)
class Job:
    """One of the jobs of a block."""

    block: Block
    index: int
    range: Range | None
    age: Age
    number: int  #: of its latest attempt
    failures: int = 0  #: attempts that count against the most it may have
    done: bool = False
    lease: OpenLease | None = None


@dataclass(eq=False, slots=True)
class Block:
    """A block of a live experiment."""

    spec: BlockSpec
    experiment: Experiment
    position: int
    upstream: tuple[Block, ...]
    downstream: list[Block] = field(default_factory=list)
    state: blocks.State = blocks.State.BLOCKED
    jobs: list[Job] = field(default_factory=list)  #: empty until it is known how it is cut
    queued_at: float = 0.0
    doom: Failure | None = None  #: it will fail with this once nothing of it runs

    @property
    def id(self) -> str:
        return self.spec.id

    def is_final(self) -> bool:
        return self.state in blocks.FINAL

    def is_ready(self) -> bool:
        """Whether the outputs that it reads are all there."""
        return all(block.state in blocks.SUCCEEDED for block in self.upstream)

    def leases(self) -> list[OpenLease]:
        """Return what of it is with workers."""
        return [job.lease for job in self.jobs if job.lease is not None]


@dataclass(eq=False, slots=True)
class Experiment:
    """A live experiment."""

    id: str
    user: str
    submitted_at: float
    state: experiments.State = experiments.State.PENDING
    blocks: list[Block] = field(default_factory=list)  #: in topological order
    unfinished: set[str] = field(default_factory=set)  #: ids of those not final


class Live:
    """The farm's state, with its indices kept in step."""

    def __init__(self, policies: Mapping[str, Policy], policy: str, max_attempts: int) -> None:
        self.policies = policies
        self.policy_name = policy
        self.max_attempts = max_attempts
        self.queues: dict[str, Queue] = {}
        self.sites: dict[str, Site] = {}
        self.rights: dict[str, dict[str, Right]] = {}  # user -> queue
        self.accounts: dict[tuple[str, str], Account] = {}  # (queue, user)
        self._accounts_of: dict[str, list[Account]] = defaultdict(list)
        self.lines: dict[tuple[str, Environment], Line] = {}
        self.hot: set[Line] = set()  # lines to look at in the next pass
        self.moved: set[Lane] = set()  # lanes to put in order before it
        self.experiments: dict[str, Experiment] = {}
        self.blocks: dict[str, Block] = {}
        self.open: dict[str, OpenLease] = {}
        self.uncut: dict[str, Block] = {}  # queued; waits for its ranges
        self.by_key: dict[str, dict[str, Block]] = defaultdict(dict)  # not final, by cache key
        self.flights: dict[str, Block] = {}  # key -> the one block that computes it now
        self.finished_keys: dict[str, None] = {}  # lately, oldest first
        self.remarks: dict[str, list[tuple[float, str]]] = {}
        self._lanes = 0

    @property
    def policy(self) -> Policy:
        return self.policies[self.policy_name]

    # ---- queues, workers, users -----------------------------------------------------------

    def set_queue(self, queue: Queue) -> None:
        """Take over a queue as it is now."""
        self.queues[queue.id] = queue
        for line in self.lines.values():
            if line.queue.id == queue.id:
                line.queue = queue
        self.match_lines()

    def drop_queue(self, queue: str) -> None:
        """Forget a queue that nothing live uses."""
        self.queues.pop(queue, None)
        gone = {key: line for key, line in self.lines.items() if line.queue.id == queue}
        for key, line in gone.items():
            del self.lines[key]
            self.hot.discard(line)
        for account in [a for a in self.accounts.values() if a.queue == queue]:
            account.lanes.clear()
        self.match_lines()

    def set_worker(self, worker: Worker) -> Site:
        """Take over a worker as it is now; what is open on it stays open."""
        site = self.sites.get(worker.id)
        if site is None:
            site = self.sites[worker.id] = Site(worker)
        site.worker = worker
        self.match_lines_of(site)
        return site

    def match_lines(self) -> None:
        """See anew which workers could run which waiting jobs."""
        for site in self.sites.values():
            self.match_lines_of(site)

    def match_lines_of(self, site: Site) -> None:
        """See anew which waiting jobs a worker could run."""
        for line in site.lines:
            line.sites.pop(site.worker.id, None)
        site.lines = [line for line in self.lines.values() if line.fits(site)]
        self.offer(site)

    def offer(self, site: Site) -> None:
        """A worker may have room: let the lines that it serves look at it."""
        name = site.worker.id
        for line in site.lines:
            line.sites[name] = site
            self.hot.add(line)

    def offer_slot(self, site: Site) -> None:
        """A worker holds less than before: offer it to the lines that have a slot on it."""
        for line in site.lines:
            if site.has_slot(line.queue):
                line.sites[site.worker.id] = site
                self.hot.add(line)

    def hold_rights(self, user: str, rights: Mapping[str, Right]) -> None:
        """Replace what a user may hold, of all queues."""
        self.rights[user] = dict(rights)
        for account in self._accounts_of[user]:
            account.right = rights.get(account.queue, Right(slots=0))
            self.moved.update(account.lanes)

    def account(self, queue: str, user: str) -> Account:
        """Return the account of a user on a queue, opened at first need."""
        account = self.accounts.get((queue, user))
        if account is None:
            right = self.rights.get(user, {}).get(queue, Right(slots=0))
            account = Account(user=user, queue=queue, right=right)
            self.accounts[queue, user] = account
            self._accounts_of[user].append(account)
        return account

    # ---- what waits -----------------------------------------------------------------------

    def wait(self, job: Job) -> None:
        """A job waits for a slot."""
        lane = self._lane_for(job.block)
        lane.put(job)
        self.moved.add(lane)

    def stop_waiting(self, block: Block) -> None:
        """The jobs of a block that still wait need not run any more."""
        self.uncut.pop(block.id, None)
        self.withdraw(block)

    def withdraw(self, block: Block) -> None:
        """Take the jobs of a block that still wait out of their lane."""
        lane = self.lane(block)
        if lane is not None:
            for job in block.jobs:
                lane.drop(job)
            self.moved.add(lane)

    def lane(self, block: Block) -> Lane | None:
        """Return the lane in which the block's jobs wait, if there is one."""
        line = self.lines.get((block.spec.queue, block.spec.environment))
        return line.lanes.get(block.experiment.user) if line else None

    def _lane_for(self, block: Block) -> Lane:
        line = self._line(block.spec.queue, block.spec.environment)
        user = block.experiment.user
        lane = line.lanes.get(user)
        if lane is None:
            account = self.account(block.spec.queue, user)
            self._lanes += 1
            lane = line.lanes[user] = Lane(line, account, self._lanes)
            account.lanes.append(lane)
        return lane

    def _line(self, queue: str, environment: Environment) -> Line:
        line = self.lines.get((queue, environment))
        if line is None:
            line = Line(self.queues[queue], environment, len(self.lines))
            self.lines[queue, environment] = line
            for site in self.sites.values():
                if line.fits(site):
                    site.lines.append(line)
                    line.sites[site.worker.id] = site
        return line

    def put_in_order(self, now: float) -> None:
        """Put the lanes that have moved since the last pass where they belong now."""
        for lane in self.moved:
            lane.line.replace(lane, self.policy, now)
            self.hot.add(lane.line)
        self.moved.clear()

    def reorder(self, now: float) -> None:
        """Put all lanes in order anew: the policy changed, or time passed."""
        for line in self.lines.values():
            line.reorder(self.policy, now)
            self.hot.add(line)

    # ---- what is open ---------------------------------------------------------------------

    def open_lease(self, lease: OpenLease) -> None:
        """Book a lease in both ledgers."""
        self.open[lease.attempt] = lease
        lease.job.lease = lease
        lease.account.open[lease.attempt] = lease
        lease.site.add(lease)
        self.moved.update(lease.account.lanes)

    def close_lease(self, lease: OpenLease, now: float) -> None:
        """Strike a lease from both ledgers; what it held is free."""
        del self.open[lease.attempt]
        account, site = lease.account, lease.site
        lease.job.lease = None
        account.open.pop(lease.attempt, None)
        site.remove(lease)
        account.use = use.add(account.use, now - lease.leased_at, now)
        self.moved.update(account.lanes)
        self.offer_slot(site)

    # ---- experiments ----------------------------------------------------------------------

    def admit(self, submission: Submission) -> Experiment:
        """Take in an experiment, all its blocks blocked."""
        experiment = Experiment(
            id=submission.experiment,
            user=submission.user,
            submitted_at=submission.submitted_at,
        )
        known: dict[str, Block] = {}
        for position, spec in enumerate(submission.blocks):
            upstream = tuple(known[name] for name in dict.fromkeys(spec.inputs))
            block = Block(spec=spec, experiment=experiment, position=position, upstream=upstream)
            known[spec.id] = block
            for other in upstream:
                other.downstream.append(block)
            self.by_key[spec.key][spec.id] = block
        experiment.blocks = list(known.values())
        experiment.unfinished = set(known)
        self.blocks.update(known)
        self.experiments[experiment.id] = experiment
        return experiment

    def new_job(self, block: Block, index: int, range_: Range | None) -> Job:
        """Return a job that was never tried in this run."""
        experiment = block.experiment
        age = (experiment.submitted_at, experiment.id, block.position, index)
        return Job(
            block=block, index=index, range=range_, age=age, number=block.spec.attempts_before
        )

    def retire(self, block: Block) -> None:
        """A block has become final."""
        block.experiment.unfinished.discard(block.id)
        peers = self.by_key.get(block.spec.key)
        if peers is not None:
            peers.pop(block.id, None)
            if not peers:
                del self.by_key[block.spec.key]

    def remember_key(self, key: str) -> None:
        """An entry was made in the cache; a submission under way may not have seen it."""
        self.finished_keys[key] = None
        if len(self.finished_keys) > REMEMBERED_KEYS:
            del self.finished_keys[next(iter(self.finished_keys))]

    def forget(self, experiment: Experiment) -> None:
        """An experiment has come to its end: the core needs it no longer."""
        del self.experiments[experiment.id]
        for block in experiment.blocks:
            del self.blocks[block.id]
            self.remarks.pop(block.id, None)
            # No cycles of objects: what is over must not wait for the garbage collector.
            block.jobs.clear()
            block.downstream.clear()
        experiment.blocks = []

    def remark(self, block: Block, now: float, text: str) -> None:
        """Keep a decision about a block that no row tells."""
        remarks = self.remarks.setdefault(block.id, [])
        if len(remarks) < REMARKS:
            remarks.append((now, text))

    def online(self) -> Iterator[Site]:
        """Yield the workers that may be given something."""
        return (s for s in self.sites.values() if s.worker.state is WorkerState.ONLINE)

    def waiting_jobs(self) -> Iterable[Job]:
        """Yield every waiting job; for tests and overviews, not for decisions."""
        for line in self.lines.values():
            for lane in line.lanes.values():
                yield from lane.waiting.values()
