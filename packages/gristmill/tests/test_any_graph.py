"""Any graph, any ends, any faults: the same states on every kind of manager, each job sent once."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from gristmill.fakes import FakeManager
from gristmill.jobs import Job, JobGroup, JobState, Relation

KINDS = (
    {},
    {"relations": frozenset({Relation.AFTER_ANY})},
    {"relations": frozenset(), "arrays": False, "throttle": False, "element_wise": False},
    {"keeps_history": True, "throttle": False},
)


@dataclass(frozen=True)
class Case:
    """Ends by job number, edges (dependent, relation, target), sizes of arrays (0: none)."""

    ends: tuple[int, ...]
    edges: frozenset[tuple[int, Relation, int]]
    sizes: tuple[int, ...]


@st.composite
def cases(draw: st.DrawFn) -> Case:
    count = draw(st.integers(1, 6))
    numbers = st.integers(0, count - 1)
    pairs = st.tuples(numbers, st.sampled_from(Relation), numbers).filter(lambda e: e[2] < e[0])
    edges = draw(st.frozensets(pairs, max_size=8)) if count > 1 else frozenset()
    ends = draw(st.lists(st.sampled_from([0, 1, 137]), min_size=count, max_size=count))
    sizes = draw(st.lists(st.sampled_from([0, 0, 3]), min_size=count, max_size=count))
    return Case(tuple(ends), edges, tuple(sizes))


def expected(case: Case) -> list[JobState]:
    """What the words mean, worked out without any manager."""
    states: list[JobState] = []
    for number, code in enumerate(case.ends):
        verdicts = [
            relation.satisfied_by(states[target])
            for dependent, relation, target in case.edges
            if dependent == number
        ]
        end = JobState.FAILED if code else JobState.DONE
        states.append(end if all(verdicts) else JobState.CANCELLED)
    return states


def jobs_of(case: Case) -> list[Job]:
    jobs: list[Job] = []
    for number, size in enumerate(case.sizes):
        array = f"0-{size - 1}%2" if size else None
        job = Job(command=["true"], name=str(number), array=array)
        for dependent, relation, target in sorted(case.edges):
            if dependent == number:
                job.depends_on(jobs[target], relation)
        jobs.append(job)
    return jobs


@settings(max_examples=60, deadline=None)
@given(
    cases(),
    st.sampled_from(KINDS),
    st.fixed_dictionaries(
        {
            "lose_answers": st.integers(0, 2),
            "lose_submissions": st.integers(0, 2),
            "empty_answers": st.integers(0, 1),
            "busy": st.integers(0, 2),
            "empty_listings": st.integers(0, 2),
        }
    ),
)
def test_states_and_submissions(
    case: Case, kind: dict[str, object], faults: dict[str, int]
) -> None:
    ends = {str(number): code for number, code in enumerate(case.ends)}
    fake = FakeManager(outcomes=ends, **kind, **faults)  # type: ignore[arg-type]
    jobs = jobs_of(case)
    with fake.client() as rm:
        run = rm.submit(JobGroup(jobs))
        run.wait()
        assert [run[job].state for job in jobs] == expected(case)
    tokens = [job.given["token"] for job in fake.jobs.values()]
    assert len(tokens) == len(set(tokens)) == sum(len(entry.parts) for entry in run._entry.entries)
