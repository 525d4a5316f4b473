"""Any history: random events, and after each of them and its pass the farm is sound.

Checked against models that share no code with the core: what is written down (records.py, which
knows only the transition tables) and the pass by hand (reference.py).
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from backend.scheduler.core import blocks, experiments, policies
from backend.scheduler.core.events import (
    AllStopped,
    CacheLost,
    Deleted,
    Event,
    Finished,
    Outcome,
    Planned,
    PolicySet,
    QueueSet,
    RightsSet,
    Started,
    Stopped,
    Ticked,
    WorkerHeard,
    WorkerLost,
    WorkerSet,
)
from backend.scheduler.core.farm import Farm
from backend.scheduler.core.instructions import Close, Instruction, Lease, Refuse
from backend.scheduler.core.live import Block
from backend.scheduler.core.model import Failure, FailureKind, Right, WorkerState
from tests.core.farms import OTHER, PYTHON, block, queue, submitted, worker
from tests.core.records import Records
from tests.core.reference import Reference

QUEUES, WORKERS, USERS = ("Q1", "Q2"), ("W1", "W2", "W3"), ("ann", "ben", "cyd")
SHAPES = ([()], [(), (), ()], [(), (0,), (0, 1)], [(), (0,), (0,), (1, 2)], [(), (0,), (1,), (2,)])
RIGHT = st.builds(Right, slots=st.integers(1, 4), priority=st.integers(0, 2))
RIGHTS = st.one_of(
    *[st.fixed_dictionaries(dict.fromkeys(QUEUES, RIGHT))] * 3,
    st.fixed_dictionaries({}, optional=dict.fromkeys(QUEUES, RIGHT)),
)
BEGUN = (blocks.State.ASSIGNED, blocks.State.RUNNING, blocks.State.CANCELLING)


class AnyHistory(RuleBasedStateMachine):
    """The world of the farm, as adverse as it likes."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = {
            "policies": {**policies.BUILT_IN, "priority": policies.priority_with(60.0)},
            "max_attempts": 2,
        }
        self.farm = Farm(**self.settings)
        self.records = Records()
        self.now = 1000.0
        self.count = 0

    def happens(self, *events: Event) -> list[Instruction]:
        """Let a batch happen, and the pass after it, and write down what follows."""
        out: list[Instruction] = []
        for event in events:
            self.records.before(event)
            answer = self.farm.handle(event, self.now)
            self.records.write(answer, self.now)
            out += answer
        return out + self.the_pass()

    def the_pass(self) -> list[Instruction]:
        reference = Reference(self.farm)
        out = self.farm.schedule(self.now)
        reference.check([i for i in out if isinstance(i, Lease)], self.now)
        self.records.write(out, self.now)
        return out

    def some(self, data: Any, of: list[Any]) -> Any:
        return data.draw(st.sampled_from(of)) if of else None

    # ---- rules ----------------------------------------------------------------------------

    @initialize()
    def a_farm(self) -> None:
        self.happens(
            QueueSet(queue=queue("Q1", slots=2)),
            QueueSet(queue=queue("Q2", slots=2, cores=2, memory=300)),
            WorkerSet(worker=worker("W1", cores=3, memory=500)),
            WorkerSet(worker=worker("W2", cores=4, memory=400, environments=(PYTHON, OTHER))),
        )

    @rule(
        shape=st.sampled_from(SHAPES),
        user=st.sampled_from(USERS),
        rights=RIGHTS,
        data=st.data(),
    )
    def submit(self, shape: Any, user: str, rights: Any, data: Any) -> None:
        self.count += 1
        name = f"e{self.count}"
        specs = [
            block(
                f"{name}b{i}",
                *(f"{name}b{j}" for j in inputs),
                queue=data.draw(st.sampled_from(QUEUES)),
                slots=data.draw(st.integers(1, 3)),
                key=data.draw(st.sampled_from(["k1", "k2", None, None])),
                environment=data.draw(st.sampled_from([PYTHON, PYTHON, OTHER])),
            )
            for i, inputs in enumerate(shape)
        ]
        known = tuple(self.records.cache)
        at = self.now - data.draw(st.integers(0, 3))
        self.happens(submitted(name, *specs, user=user, rights=rights, at=at, cached=known))

    @rule(data=st.data(), how=st.sampled_from([Stopped, Deleted]), rarely=st.integers(0, 2))
    def stop_or_delete(self, data: Any, how: Any, rarely: int) -> None:
        if rarely:
            return
        experiment = self.some(data, list(self.records.states))
        if experiment is not None:
            self.happens(how(experiment=experiment))

    @rule(rarely=st.integers(0, 9))
    def stop_all(self, rarely: int) -> None:
        if rarely:
            return
        self.happens(AllStopped())
        states = self.records.states.values()
        assert experiments.State.RUNNING not in states
        assert experiments.State.PENDING not in states

    @rule(data=st.data())
    def all_goes_well(self, data: Any) -> None:
        """Blocks are cut; every open lease starts; some of them end as asked."""
        for name, slots in self.farm.unplanned():
            ranges = tuple((10 * i, 10 * i + 9) for i in range(slots))
            self.happens(Planned(block=name, ranges=ranges))
        for lease in [a.lease for a in self.open() if not a.started]:
            self.happens(Started(attempt=lease.attempt, worker=lease.worker))
        for attempt in self.open():
            if data.draw(st.integers(0, 2)):
                outcome = Outcome.CANCELLED if attempt.revoked else Outcome.DONE
                name, where = attempt.lease.attempt, attempt.lease.worker
                self.happens(Finished(attempt=name, worker=where, outcome=outcome))

    @rule(data=st.data())
    def start(self, data: Any) -> None:
        lease = self.some(data, [a.lease for a in self.open() if not a.started])
        if lease is not None:
            out = self.happens(Started(attempt=lease.attempt, worker=lease.worker))
            assert not [i for i in out if isinstance(i, Refuse)]

    @rule(
        data=st.data(),
        outcome=st.sampled_from([*Outcome, Outcome.DONE, Outcome.DONE]),
        kind=st.sampled_from(FailureKind),
    )
    def finish(self, data: Any, outcome: Outcome, kind: FailureKind) -> None:
        lease = self.some(data, [a.lease for a in self.open()])
        if lease is None:
            return
        failure = Failure(kind=kind, message="x") if outcome is Outcome.FAILED else None
        event = Finished(
            attempt=lease.attempt, worker=lease.worker, outcome=outcome, failure=failure
        )
        out = self.happens(event)
        assert [i.attempt for i in out if isinstance(i, Close)] == [lease.attempt]
        assert isinstance(self.farm.handle(event, self.now)[0], Refuse), "taken twice"

    @rule(data=st.data(), outcome=st.sampled_from(Outcome), late=st.booleans())
    def report_late_or_falsely(self, data: Any, outcome: Outcome, late: bool) -> None:
        attempts = list(self.records.attempts.values())
        attempt = self.some(data, [a for a in attempts if (a.closed is not None) is late])
        if attempt is not None:
            who = attempt.lease.worker if late else "nobody"
            name = attempt.lease.attempt
            for event in (
                Started(attempt=name, worker=who),
                Finished(attempt=name, worker=who, outcome=outcome),
            ):
                (only,) = self.happens(event)
                assert isinstance(only, Refuse)

    @rule(data=st.data(), cuts=st.integers(0, 3))
    def plan(self, data: Any, cuts: int) -> None:
        waiting = self.some(data, self.farm.unplanned())
        if waiting is not None:
            ranges = tuple((10 * i, 10 * i + 9) for i in range(min(cuts, waiting[1])))
            self.happens(Planned(block=waiting[0], ranges=ranges))

    @rule(name=st.sampled_from(WORKERS), rarely=st.integers(0, 2))
    def lose(self, name: str, rarely: int) -> None:
        if not rarely and name in self.records.workers:
            self.happens(WorkerLost(worker=name))
            assert not [a for a in self.open() if a.lease.worker == name]

    @rule(name=st.sampled_from(WORKERS))
    def hear(self, name: str) -> None:
        self.happens(WorkerHeard(worker=name))

    @rule(
        name=st.sampled_from(WORKERS),
        cores=st.integers(0, 6),
        state=st.sampled_from([*(WorkerState.ONLINE,) * 8, *WorkerState]),
        shares=st.dictionaries(st.sampled_from(QUEUES), st.integers(0, 3)),
        environments=st.sampled_from([(PYTHON,), (OTHER,), (PYTHON, OTHER)]),
        registers=st.booleans(),
        data=st.data(),
    )
    def change_worker(
        self,
        name: str,
        cores: int,
        state: Any,
        shares: Any,
        environments: Any,
        registers: bool,
        data: Any,
    ) -> None:
        value = worker(name, cores, 100 * cores, environments, state, shares)
        still = [a.lease.attempt for a in self.open() if a.lease.worker == name]
        kept = frozenset(data.draw(st.sets(st.sampled_from(still)))) if still else frozenset()
        self.happens(WorkerSet(worker=value, running=kept if registers else None))

    @rule(name=st.sampled_from(QUEUES), slots=st.integers(0, 4))
    def change_queue(self, name: str, slots: int) -> None:
        sizes = {"Q1": (1, 100), "Q2": (2, 300)}
        self.happens(QueueSet(queue=queue(name, slots, *sizes[name])))

    @rule(user=st.sampled_from(USERS), rights=RIGHTS)
    def change_rights(self, user: str, rights: Any) -> None:
        self.happens(RightsSet(user=user, rights=rights))

    @rule(name=st.sampled_from(sorted(policies.BUILT_IN)))
    def change_policy(self, name: str) -> None:
        self.happens(PolicySet(policy=name))

    @rule(seconds=st.sampled_from([0.5, 10, 40, 100]))
    def time_passes(self, seconds: float) -> None:
        self.now += seconds
        self.happens(Ticked())

    @rule()
    def clean_the_cache(self) -> None:
        keys, self.records.cache = frozenset(self.records.cache), set()
        self.happens(CacheLost(keys=keys))

    @rule()
    def restart(self) -> None:
        self.time_passes(100)  # so that no worker rests: that is not written down
        before = picture(self.farm)
        kept = self.records.snapshot(self.farm.recent_use())
        self.farm = Farm.restore(kept, self.now, **self.settings)
        self.the_pass()
        after = picture(self.farm)
        assert {part: after[part] for part in after if after[part] != before[part]} == {}

    # ---- what always holds ----------------------------------------------------------------

    def open(self) -> list[Any]:
        return [a for a in self.records.attempts.values() if a.closed is None]

    @invariant()
    def no_job_is_on_two_workers(self) -> None:
        jobs = Counter((a.lease.block, a.lease.index) for a in self.open())
        assert not jobs or max(jobs.values()) == 1

    @invariant()
    def the_records_and_the_farm_agree(self) -> None:
        assert set(self.farm._live.open) == {a.lease.attempt for a in self.open()}
        for found in self.farm._live.blocks.values():
            assert self.records.rows[found.id].state is found.state
        live = {n for n, state in self.records.states.items() if state in experiments.LIVE}
        assert set(self.farm._live.experiments) == live

    @invariant()
    def every_block_gets_on(self) -> None:
        """A block waits for its inputs, its ranges, a peer, a slot or a worker: for something."""
        live = self.farm._live
        waiting = {id(job) for job in live.waiting_jobs()}
        for found in live.blocks.values():
            row = self.records.rows[found.id]
            open_ = [a for a in row.attempts if a.closed is None]
            match found.state:
                case blocks.State.BLOCKED:
                    assert not found.is_ready()
                case blocks.State.QUEUED:
                    assert not open_
                    leader = live.flights.get(found.spec.key)
                    left = [job for job in found.jobs if not job.done]
                    if leader is None:
                        assert found.id in live.uncut or left
                        assert all(id(job) in waiting for job in left)
                    else:
                        assert leader is not found
                        assert leader.state in BEGUN
                case state if state in BEGUN:
                    assert open_ or any(id(job) in waiting for job in found.jobs)
                case state:
                    assert state in blocks.FINAL
                    assert not open_

    @invariant()
    def one_key_is_computed_once(self) -> None:
        begun = [b for b in self.farm._live.blocks.values() if b.state in BEGUN]
        keys = Counter(b.spec.key for b in begun)
        assert not keys or max(keys.values()) == 1

    @invariant()
    def everything_waiting_can_be_explained(self) -> None:
        for found in self.farm._live.blocks.values():
            explanation = self.farm.explain(found.id, self.now)
            assert explanation is not None
            assert explanation.message
            assert explanation.would_start

    @invariant()
    def the_overview_adds_up(self) -> None:
        state = self.farm.state()
        assert state["running"] == len(self.open())
        assert sum(q["slots_used"] for q in state["queues"]) == len(self.open())
        assert sum(u["held"] for u in state["users"]) == len(self.open())


def picture(farm: Farm) -> Any:
    """Everything about a farm that decides what it does next."""
    live = farm._live
    return {
        "blocks": {b.id: _picture_of(b) for b in live.blocks.values() if not b.is_final()},
        "waiting": sorted((j.block.id, j.index, j.age) for j in live.waiting_jobs()),
        "uncut": set(live.uncut),
        "open": {a: (o.started, o.revoked, o.site.worker.id) for a, o in live.open.items()},
        "flights": {key: b.id for key, b in live.flights.items()},
        "rights": live.rights,
        "policy": live.policy_name,
        "workers": {name: site.worker for name, site in live.sites.items()},
    }


def _picture_of(block: Block) -> Any:
    ending = block.state is blocks.State.CANCELLING or block.doom is not None
    jobs = [
        (j.index, j.range, j.number, j.done, None if ending else j.failures) for j in block.jobs
    ]
    return block.state, block.doom, jobs


AnyHistory.TestCase.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
TestAnyHistory = AnyHistory.TestCase
