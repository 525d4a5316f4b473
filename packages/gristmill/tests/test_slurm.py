"""The Slurm dialect: what it renders, and what real Slurm 22.05.8 printed (tests/recorded)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.commands import Output
from gristmill.drivers import Slurm
from gristmill.engine.flows import Policy
from gristmill.errors import (
    CommandFailed,
    Denied,
    HistoryUnavailable,
    ParseError,
    Refused,
    Transient,
    Unclear,
)
from gristmill.jobs import Hold, Job, JobState, Relation
from gristmill.journal import MemoryJournal
from gristmill.managers import slurm
from gristmill.managers.base import Edge, Fate, Request
from gristmill.managers.slurm import SlurmDialect
from gristmill.records import Cause, Outcome, Record
from gristmill.testing import FakeTransport, recorded

DIALECT = SlurmDialect()
RECORDED = Path(__file__).parent / "recorded" / "slurm"


def said(name: str) -> dict[str, Output]:
    return recorded(RECORDED / f"{name}.txt")


def header(**options: object) -> list[str]:
    options.setdefault("command", ["true"])
    edges = options.pop("edges", ())
    job = Job(**options)  # type: ignore[arg-type]
    request = Request(spec=job.spec, token="t0", edges=edges, now=1000.0)  # type: ignore[arg-type]
    script = DIALECT.render(request).script
    return [line[8:] for line in script.splitlines() if line.startswith("#SBATCH ")]


# -- rendering


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"time": 90}, "--time=0-00:02:00"),
        ({"time": "3-0:00:00"}, "--time=3-00:00:00"),
        ({"memory": "1G", "nodes": 3}, "--mem=342M"),
        ({"memory": "1G", "tasks": 4}, "--mem-per-cpu=256M"),
        ({"memory": 1}, "--mem=1M"),
        ({"gpus": "a100:4"}, "--gpus=a100:4"),
        ({"nodes": 2, "cores_per_node": 16}, "--ntasks-per-node=16"),
        ({"features": ["a", "b|c"]}, '--constraint="a&b|c"'),
        ({"array": "0-99:2%10"}, "--array=0-98:2%10"),
        ({"begin": 1060}, "--begin=now+60"),
        ({"name": 'a "b" # \\c'}, '--job-name="a \\"b\\" # \\\\c"'),
        ({"stdout": "50%-%j.out"}, "--output=50%%-%j.out"),
        ({"array": 2, "stdout": "o.%j"}, "--output=o.%A_%a"),
        ({"requeue": False}, "--no-requeue"),
        ({"licences": {"matlab": 2}}, "--licenses=matlab:2"),
        ({"project": "p1"}, "--account=p1"),
        ({"priority": 0}, "--priority=0"),
        ({"hold": True}, "--hold"),
        ({"edges": (Edge(Relation.AFTER_OK, "5"), Edge(Relation.AFTER_ANY, "6"))},
         "--dependency=afterok:5,afterany:6"),
        ({"array": 2, "edges": (Edge(Relation.AFTER_OK, "5", True),)}, "--dependency=aftercorr:5"),
    ],
)  # fmt: skip
def test_lines(options: dict[str, object], line: str) -> None:
    assert line in header(**options)


def test_what_is_rounded_or_refused_is_said() -> None:
    job = Job(command=["x"], time=61, project="a", account="b", node_kind="fat", hold="system",
              native={"slurm": ["--time=5", "--switches=1"], "oar": ["-t besteffort"]})  # fmt: skip
    report = DIALECT.render(Request(spec=job.spec, token="t")).report
    assert report["time"].fate is Fate.ROUNDED
    assert {note.attribute for note in report.of(Fate.REFUSED)} == {
        "project",
        "node_kind",
        "hold",
        "native",
    }


def test_every_attribute_that_is_asked_is_in_the_report() -> None:
    job = Job("s.sh", name="n", time=60, nodes=1, tasks_per_node=1, memory="1G", gpus=1, queue="q",
              account="a", reservation="r", qos="q", priority=1, exclusive=True, features="f",
              mail_on="end", mail_to="me@x", hold=True, requeue=True, begin=5, array=3, stdin="i",
              stdout="o", stderr="e", licences={"l": 1}, directory="/d", environment={"A": "1"},
              arguments=["a"])  # fmt: skip
    report = DIALECT.render(Request(spec=job.spec, token="t")).report
    assert {note.attribute for note in report.notes} == set(job.spec.asked())
    assert not report.of(Fate.REFUSED)


@given(st.text(st.characters(blacklist_categories=["Cc", "Cs"]), min_size=1, max_size=40))
def test_no_value_escapes_its_line(text: str) -> None:
    lines = header(name=text, queue=text)
    assert len([line for line in lines if line.startswith("--job-name=")]) == 1
    assert len(lines) == 4


def test_a_header_that_is_not_read_is_said() -> None:
    job = Job(script_text="#!/bin/sh\n#SBATCH --nodes=4\ntrue\n", name="x")
    with Slurm(transport=FakeTransport([]), journal=MemoryJournal()) as rm:
        plan = rm.plan(job)
    assert plan.jobs[0].report["header"].wanted == "1 lines of #SBATCH"


# -- submission


@pytest.mark.parametrize(
    ("stdout", "id"),
    [
        (b"123\n", "123"),
        (b"123;cluster\n", "123"),
        (b"Submitted batch job 123\n", "123"),
        (b"Submitted batch job 123 on cluster big7\n", "123"),
        (b"sbatch: This job will be charged to acct 77\n\n123\n", "123"),
        (b"Welcome 2 the cluster\n\xff\xfe\n123\n", "123"),
    ],
)
def test_ids_among_banners(stdout: bytes, id: str) -> None:
    assert DIALECT.parse_submit(Output(stdout)) == id


@pytest.mark.parametrize(
    ("out", "error"),
    [
        (Output(b""), Unclear),
        (Output(b"thank you\n"), Unclear),
        (Output(b"", b"sbatch: error: ... Socket timed out on send/recv operation", 1), Unclear),
        (Output(b"", b"Unable to contact slurm controller (connect failure)", 1), Transient),
        (
            Output(b"", b"Slurm temporarily unable to accept job, sleeping and retrying", 1),
            Transient,
        ),
        (Output(b"", b"Invalid partition name specified", 1), Refused),
        (Output(b"", b"Access/permission denied", 1), Denied),
        (Output(rc=-1, timed_out=True), Unclear),
    ],
)
def test_answers_without_an_id(out: Output, error: type[CommandFailed]) -> None:
    with pytest.raises(error) as caught:
        DIALECT.parse_submit(out)
    assert type(caught.value) is error


def test_recorded_submissions() -> None:
    good, bad = said("submit_ok"), said("submit_errors")
    assert DIALECT.parse_submit(good['sbatch --wrap "echo hi; sleep 8"']) == "1"
    assert DIALECT.parse_submit(good['sbatch --parsable -M ci --wrap "sleep 8"']) == "3"
    for command, out in bad.items():
        if out.rc != 0:
            with pytest.raises(Refused, match="sbatch"):
                DIALECT.parse_submit(out)
        else:
            assert DIALECT.parse_submit(out).isdigit(), command


def test_a_job_registered_by_a_failed_sbatch_is_found_and_not_sent_again() -> None:
    """The public fault: 'Socket timed out', rc 1, and a ghost job."""
    tokens: list[str] = []

    def answer(command: object) -> Output:
        argv = command.argv  # type: ignore[attr-defined]
        if argv[0] == "sbatch":
            script = command.stdin.decode()  # type: ignore[attr-defined]
            tokens.append(script.split("gristmill:")[1].split("\n")[0])
            return Output(b"", b"sbatch: error: Socket timed out on send/recv operation\n", 1)
        rows = [f"7\x1f{slurm.COMMENT}other\x1f", f"8\x1f{slurm.COMMENT}{tokens[0]}\x1f"]
        return Output("\n".join(rows).encode())

    transport = FakeTransport(answer)
    policy = Policy(first_delay=0, lookups=(0,))
    with Slurm(transport=transport, journal=MemoryJournal(), policy=policy) as rm:
        run = rm.submit(Job(command=["x"]))
    assert run.handles[0].id == "8"
    assert len(tokens) == 1


# -- listings, recorded with the very questions of the dialect


def answer(name: str) -> Output:
    (out,) = said(f"asked/{name}").values()
    return out


def kinds() -> dict[str, str]:
    """Which job was made for what, by kind."""
    lines = (RECORDED / "asked/kinds.txt").read_text().splitlines()
    return {kind: id for id, kind in (line.split() for line in lines)}


def by_kind(records: Iterable[Record]) -> dict[str, Record]:
    found = {record.id: record for record in records}
    return {kind: found[id] for kind, id in kinds().items() if id in found}


ENDS = {
    "done": (JobState.DONE, 0),
    "failed": (JobState.FAILED, 3),
    "cancelled": (JobState.CANCELLED, None),
    "held": (JobState.HELD, None),
    "running": (JobState.RUNNING, None),
    "impossible": (JobState.QUEUED, None),
    "waits": (JobState.QUEUED, None),
    "later": (JobState.QUEUED, None),
    "array": (JobState.RUNNING, None),
    "over": (JobState.FAILED, 2),
}


def test_the_recorded_listing() -> None:
    found = by_kind(DIALECT.parse_live(answer("live")).records)
    assert {k: (found[k].state, found[k].exit_code) for k in ENDS} == ENDS | {
        "cancelled": (JobState.CANCELLED, 143)
    }
    causes = {kind: record.cause for kind, record in found.items()}
    assert causes["impossible"] is Cause.IMPOSSIBLE
    assert causes["waits"] is Cause.DEPENDENCY
    assert causes["later"] is Cause.BEGIN_TIME
    assert found["killed"].signal == 9
    states = {e.index: e.state for e in found["array"].elements}
    assert sorted(states) == [1, 3, 5, 7, 9]
    assert states[9] is JobState.QUEUED
    assert [e.exit_code for e in found["over"].elements] == [0, 1, 2]
    assert found["done"].token is not None


def test_the_recorded_history() -> None:
    found = by_kind(DIALECT.parse_history(answer("history")).records)
    assert {k: (found[k].state, found[k].exit_code) for k in ENDS} == ENDS
    assert [e.id for e in found["over"].elements] == [f"{kinds()['over']}_{n}" for n in range(3)]


def test_the_recorded_rest() -> None:
    used = DIALECT.parse_accounting(answer("accounting"), kinds()["failed"])
    assert (used.exit_code, used.cores, used.queue) == (3, 1, "debug")
    assert DIALECT.parse_why(answer("why")).cause is Cause.DEPENDENCY
    assert DIALECT.parse_estimate(answer("estimate")) is None
    assert [q.name for q in DIALECT.parse_queues(answer("queues"))] == ["debug", "long", "single"]
    assert DIALECT.parse_queues(answer("queues"))[0].max_time == 3600
    assert [node.name for node in DIALECT.parse_nodes(answer("nodes"))] == ["n1", "n2", "n3"]
    assert DIALECT.parse_nodes(answer("nodes"))[0].memory == 4 * 1024**3
    assert DIALECT.parse_action(answer("hold_ended")) == {kinds()["done"]: Outcome.ALREADY_FINAL}
    assert DIALECT.parse_action(answer("cancel_mixed")) == {
        kinds()["done"]: Outcome.ALREADY_FINAL,
        "99999": Outcome.UNKNOWN,
    }


def test_a_single_unknown_id_is_absent_and_no_error() -> None:
    out = said("unknown_job")["squeue -j 99999"]
    assert out.rc == 1
    assert DIALECT.parse_live(out).records == ()


def test_a_row_with_another_number_of_fields_is_an_error_and_a_warning_is_not() -> None:
    good = "\x1f".join(["9", "9", "N/A", "RUNNING", "None", "0", "1", "2", "3", "n1", "p", "c", ""])
    warned = Output(f"squeue: warning: something\n{good}\n".encode())
    assert DIALECT.parse_live(warned).records[0].state is JobState.RUNNING
    with pytest.raises(ParseError, match="12 fields expected"):
        DIALECT.parse_live(Output(good.replace("n1", "n1\x1fx").encode()))


def test_an_unknown_state_is_an_error_and_not_a_guess() -> None:
    row = "\x1f".join(["9", "9", "N/A", "DREAMING", "None", "0", "1", "2", "3", "n1", "p", "c", ""])
    with pytest.raises(ParseError, match="DREAMING"):
        DIALECT.parse_live(Output(row.encode()))


def live(state: str, reason: str = "None", status: str = "0", id: str = "9", task: str = "N/A"):  # type: ignore[no-untyped-def]
    row = [id, id, task, state, reason, status, "100", "200", "300", "n[01-02]", "p", "c", ""]
    return DIALECT.parse_live(Output("\x1f".join(row).encode())).records[0]


@pytest.mark.parametrize(
    ("state", "reason", "status", "expected", "cause"),
    [
        ("PENDING", "JobHeldUser", "0", JobState.HELD, Cause.HELD_BY_USER),
        ("PENDING", "DependencyNeverSatisfied", "0", JobState.QUEUED, Cause.DEPENDENCY_NEVER),
        ("PENDING", "PartitionTimeLimit", "0", JobState.QUEUED, Cause.IMPOSSIBLE),
        ("PENDING", "QOSMaxSubmitJobPerUserLimit", "0", JobState.QUEUED, Cause.LIMIT),
        ("RUNNING", "JobHeldUser", "0", JobState.RUNNING, None),
        ("FAILED", "NonZeroExitCode", "768", JobState.FAILED, Cause.EXIT_CODE),
        ("OUT_OF_MEMORY", "OutOfMemory", "9", JobState.OUT_OF_MEMORY, Cause.MEMORY_LIMIT),
        ("NODE_FAIL", "NodeDown", "1", JobState.NODE_FAILURE, Cause.NODES_AWAY),
        ("CANCELLED", "None", "0", JobState.CANCELLED, None),
    ],
)
def test_states_and_causes(
    state: str, reason: str, status: str, expected: JobState, cause: Cause | None
) -> None:
    record = live(state, reason, status)
    assert (record.state, record.cause) == (expected, cause)
    assert record.nodes == ("n01", "n02")


def test_exit_codes_and_times_are_of_ended_jobs_only() -> None:
    assert live("FAILED", "NonZeroExitCode", "768").exit_code == 3
    assert live("FAILED", "None", "9").signal == 9
    waiting = live("PENDING")
    assert (waiting.started, waiting.ended, waiting.exit_code) == (None, None, None)
    assert live("CANCELLED").exit_code is None


def test_collapsed_elements_are_spread() -> None:
    record = live("PENDING", "JobArrayTaskLimit", task="1,3,5-9:2%2")
    assert [element.id for element in record.elements] == ["9_1", "9_3", "9_5", "9_7", "9_9"]
    assert record.cause is Cause.THROTTLE


@pytest.mark.parametrize(
    ("text", "id"),
    [("123", "123"), ("123_4", "123_4"), ("123_[5-9%2]", "123"), ("123.batch", "123"),
     ("123;ci", "123"), ("123+0", "123"), (" 7 \n", "7")],
)  # fmt: skip
def test_ids_have_one_spelling(text: str, id: str) -> None:
    assert DIALECT.canonical(text) == id


def test_what_is_no_id() -> None:
    with pytest.raises(ParseError):
        DIALECT.canonical("abc")


# -- history and accounting


def test_without_slurmdbd_there_is_no_history() -> None:
    out = said("no_slurmdbd")["sacct -j 1"]
    with pytest.raises(HistoryUnavailable):
        DIALECT.parse_history(out)


def test_the_controller_away_is_transient() -> None:
    out = said("ctld_down")["time timeout 60 squeue -h"]
    with pytest.raises(Transient):
        DIALECT.parse_live(out)


@pytest.mark.parametrize(
    ("text", "state"),
    [
        ("CANCELLED by 1001", JobState.CANCELLED),
        ("CANCELLED+", JobState.CANCELLED),
        ("OUT_OF_MEMORY", JobState.OUT_OF_MEMORY),
        ("TIMEOUT", JobState.TIMED_OUT),
        ("REQUEUED", JobState.QUEUED),
    ],
)
def test_words_of_sacct(text: str, state: JobState) -> None:
    row = ["9", text, "0:0", "None", "1", "Unknown", "", "None assigned", "p", ""]
    (record,) = DIALECT.parse_history(Output("\x1f".join(row).encode())).records
    assert (record.state, record.started, record.ended, record.nodes) == (state, None, None, ())


def test_the_last_run_of_a_requeued_job_counts() -> None:
    rows = [
        ["9", "REQUEUED", "0:0", "None", "1", "2", "3", "n1", "p", ""],
        ["9", "COMPLETED", "0:0", "None", "1", "5", "6", "n2", "p", ""],
    ]
    text = "\n".join("\x1f".join(row) for row in rows)
    (record,) = DIALECT.parse_history(Output(text.encode())).records
    assert (record.state, record.nodes) == (JobState.DONE, ("n2",))


def test_accounting_takes_memory_from_the_steps() -> None:
    rows = [
        ["9", "FAILED", "3:0", "61", "01:01.500", "", "n1", "4", "1", "2", "63", "p", "acct", ""],
        ["9.batch", "FAILED", "3:0", "61", "01:01", "316664K", "n1", "4", "1", "2", "", "", "", ""],
        ["9.0", "FAILED", "3:0", "61", "00:01", "1G", "n1", "4", "1", "2", "63", "", "", ""],
    ]  # fmt: skip
    text = "\n".join("\x1f".join(row) for row in rows)
    used = DIALECT.parse_accounting(Output(text.encode()), "9")
    assert (used.exit_code, used.wall, used.cpu) == (3, 61.0, 61.5)
    assert used.peak_memory == 1024**3


def test_accounting_of_an_array_is_of_all_its_elements() -> None:
    rows = [
        ["7_1", "COMPLETED", "0:0", "5", "00:02", "", "n1", "1", "1", "2", "7", "p", "a", ""],
        ["7_1.batch", "COMPLETED", "0:0", "5", "00:02", "3M", "n1", "1", "1", "2", "7", "", "", ""],
        ["7_2", "FAILED", "4:0", "5", "00:03", "", "n2", "1", "1", "6", "11", "p", "a", ""],
        ["7_[3-9]", "PENDING", "0:0", "0", "00:00", "", "", "0", "1", "Unknown", "", "p", "a", ""],
    ]
    text = "\n".join("\x1f".join(row) for row in rows)
    used = DIALECT.parse_accounting(Output(text.encode()), "7")
    assert (used.wall, used.cpu, used.exit_code) == (9.0, 5.0, 4)
    assert (used.nodes, used.peak_memory) == (("n1", "n2"), 3 * 1024**2)


# -- actions


def test_recorded_actions() -> None:
    outputs = said("unknown_job")
    assert DIALECT.parse_action(outputs["scancel 99999"]) == {}
    assert DIALECT.parse_action(outputs["scancel -v 1"]) == {"1": Outcome.ALREADY_FINAL}
    assert DIALECT.parse_action(outputs["scontrol hold 99999"]) == {"99999": Outcome.UNKNOWN}
    assert DIALECT.parse_action(outputs["scontrol hold 1"]) == {"1": Outcome.ALREADY_FINAL}
    denied = said("hold")["scontrol release 44"]
    assert DIALECT.parse_action(denied) == {"44": Outcome.DENIED}


def test_holds() -> None:
    assert DIALECT.hold(["1", "2"], Hold.USER).command.argv == ("scontrol", "uhold", "1,2")
    assert DIALECT.hold(["1"], Hold.SYSTEM).command.argv == ("scontrol", "hold", "1")


def test_ten_thousand_ids_never_make_too_long_an_argument() -> None:
    from gristmill.engine.acting import WIDEST, chunks

    ids = [str(10_000_000 + number) for number in range(10_000)]
    groups = list(chunks(ids, DIALECT.features.chunk))
    assert [id for group in groups for id in group] == ids
    assert all(len(",".join(group)) <= WIDEST < 131_072 for group in groups)
