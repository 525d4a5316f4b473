"""The dialects of OAR and Grid Engine on what real daemons printed (tests/recorded)."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.commands import Output
from gristmill.errors import (
    CommandFailed,
    Denied,
    ParseError,
    Refused,
    Transient,
    Unclear,
)
from gristmill.jobs import Hold, Job, JobState, Relation
from gristmill.managers.base import Dialect, Edge, Fate, Rendering, Request
from gristmill.managers.grid_engine import GridEngineDialect
from gristmill.managers.oar import OarDialect
from gristmill.records import Cause, Listing, Outcome, Record
from gristmill.testing import recorded

OAR = OarDialect()
GE = GridEngineDialect()
RECORDED = Path(__file__).parent / "recorded"


def said(manager: str, name: str) -> list[Output]:
    return list(recorded(RECORDED / manager / f"{name}.txt").values())


def oar(name: str) -> Output:
    return said("oar", name)[0]


def ge(name: str, command: str) -> Output:
    """The output of the command that is named so, or begins so."""
    found = recorded(RECORDED / "gridengine" / f"{name}.txt")
    return found.get(command) or next(out for key, out in found.items() if key.startswith(command))


def render(dialect: Dialect, edges: tuple[Edge, ...] = (), **options: object) -> Rendering:
    options.setdefault("command", ["true"])
    spec = Job(**options).spec  # type: ignore[arg-type]
    return dialect.render(Request(spec=spec, token="t0", edges=edges, now=1000.0))


def lines(dialect: Dialect, edges: tuple[Edge, ...] = (), **options: object) -> list[str]:
    script = render(dialect, edges, **options).script
    start = f"{dialect.directive} "
    return [line.removeprefix(start) for line in script.splitlines() if line.startswith(start)]


def by_id(listing: Listing) -> dict[str, Record]:
    return {record.id: record for record in listing.records}


# -- OAR


@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            {"time": "1h30m", "nodes": 2, "tasks_per_node": 4},
            "-l /nodes=2/core=4,walltime=01:30:00",
        ),
        ({"time": 90}, "-l /core=1,walltime=00:01:30"),
        ({"tasks": 6}, "-l /core=6"),
        ({"cores_per_task": 4}, "-l /nodes=1/core=4"),
        ({"exclusive": True, "nodes": 3}, "-l /nodes=3"),
        ({"features": ["gpu", "cluster=a"]}, "-p \"gpu='YES' AND cluster='a'\""),
        ({"mail_to": "a@b", "mail_on": "begin,abort"}, '--notify "[RUNNING,ERROR]mail:a@b"'),
        ({"account": "x"}, "--project x"),
        ({"hold": True}, "--hold"),
        ({"name": "1 ä/b"}, "-n j1_b"),
        ({"native": {"oar": ["-t besteffort"]}}, "-t besteffort"),
    ],
)
def test_oar_is_asked_for(options: dict[str, object], line: str) -> None:
    assert line in lines(OAR, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "1G"}, {"gpus": 1}, {"begin": 2e9}, {"qos": "x"}, {"priority": 3},
        {"licences": {"m": 1}}, {"account": "a", "project": "b"}, {"features": ["a'; --"]},
        {"mail_on": "end"}, {"native": {"oar": ["-l /core=2"]}, "nodes": 2},
        {"hold": Hold.SYSTEM},
    ],
)  # fmt: skip
def test_oar_refuses_what_it_cannot_do(options: dict[str, object]) -> None:
    assert render(OAR, **options).report.of(Fate.REFUSED)


def test_oar_waits_for_any_end_and_finds_its_script_by_the_token() -> None:
    edges = (Edge(Relation.AFTER_ANY, "7"), Edge(Relation.AFTER_ANY, "8"))
    assert lines(OAR, edges)[-2:] == ["-a 7", "-a 8"]
    assert OAR.find("t0").command.argv[-1] == "command LIKE '%t0/job.sh%'"


def test_oar_says_which_id_a_submission_got() -> None:
    assert OAR.parse_submit(oar("submit")) == "2"
    with pytest.raises(Refused, match="not enough resources"):
        OAR.parse_submit(oar("submit_toobig"))
    with pytest.raises(Refused, match="queue nosuch does not exist"):
        OAR.parse_submit(oar("submit_badqueue"))
    with pytest.raises(Unclear):  # an id is printed, and the job waits
        OAR.parse_submit(oar("almighty_down_submit"))
    with pytest.raises(Transient):
        OAR.parse_jobs(oar("db_down_stat"))


@pytest.mark.parametrize(
    ("name", "state", "code", "signal", "cause"),
    [
        ("query_running", JobState.RUNNING, None, None, None),
        ("query_held", JobState.HELD, None, None, Cause.HELD_BY_USER),
        ("query_pending_dependency", JobState.QUEUED, None, None, Cause.DEPENDENCY),
        ("query_completed", JobState.DONE, 0, None, None),
        ("query_failed_exit3", JobState.FAILED, 3, None, None),
        ("query_failed_nocmd", JobState.FAILED, 127, None, None),
        ("query_failed_sig9", JobState.FAILED, 137, 9, None),
        ("query_cancelled_running", JobState.CANCELLED, None, None, Cause.CANCELLED),
        ("query_cancelled_waiting", JobState.CANCELLED, None, None, Cause.CANCELLED),
        ("query_timeout", JobState.TIMED_OUT, None, None, Cause.TIME_LIMIT),
    ],
)
def test_oar_tells_states(
    name: str, state: JobState, code: int | None, signal: int | None, cause: Cause | None
) -> None:
    (record,) = OAR.parse_jobs(oar(name)).records
    assert (record.state, record.exit_code, record.signal, record.cause) == (
        state, code, signal, cause,
    )  # fmt: skip
    why = OAR.parse_why(oar(name), record.id)
    assert why.state is state
    assert why.evidence
    assert OAR.parse_accounting(oar(name), record.id).exit_code == code


def test_an_end_without_its_exit_code_is_not_an_end() -> None:
    """Without -f OAR tells no exit code: Terminated is not success."""
    states = {record.state for record in OAR.parse_jobs(oar("query_list_json")).records}
    assert JobState.DONE not in states
    assert len(OAR.parse_jobs(oar("query_list_full_json")).records) > 3


def test_oar_answers_nothing_for_an_unknown_job() -> None:
    assert OAR.parse_jobs(oar("query_unknown")).records == ()
    with pytest.raises(CommandFailed):
        OAR.parse_why(oar("query_unknown"), "9")
    with pytest.raises(ParseError):
        OAR.parse_jobs(Output(b'{\n "1": {"sta'))
    odd = b'{\n"1": {"Job_Id": 1, "state": "Odd"}}'
    with pytest.raises(ParseError, match="'Odd'"):
        OAR.parse_jobs(Output(odd))


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("del_two", {"99998": Outcome.DENIED}),
        ("del_waiting_again", {"23": Outcome.ALREADY_FINAL}),
        ("del_terminated", {}),
        ("hold_waiting", {}),
        ("hold_unknown", {"99999": Outcome.UNKNOWN}),
        ("hold_terminated", {"16": Outcome.ALREADY_FINAL}),
    ],
)
def test_oar_says_how_an_action_went(name: str, expected: dict[str, Outcome]) -> None:
    assert OAR.parse_action(oar(name)) == expected


def test_oar_refuses_an_id_that_is_none() -> None:
    with pytest.raises(CommandFailed, match="not a valid job identifier"):
        OAR.parse_action(oar("del_garbage"))
    with pytest.raises(ParseError):
        OAR.canonical("12x")


def test_the_cores_of_one_address_are_a_node_of_oar() -> None:
    (node,) = OAR.parse_nodes(oar("nodes_json"))
    assert (node.name, node.up, node.cores, node.free_cores) == ("localhost", True, 4, 2)


# -- Grid Engine


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"time": "25h"}, "-l h_rt=90000"),
        ({"nodes": 1, "cores_per_node": 4}, "-pe smp 4"),
        ({"tasks": 8}, "-pe mpi 8"),
        ({"tasks": 8, "memory": "1G"}, "-l h_vmem=131072K"),
        ({"array": "1-9:2%3"}, "-t 1-9:2"),
        ({"array": "1-9:2%3"}, "-tc 3"),
        ({"features": ["avx", "arch=lx*"]}, "-l arch=lx*"),
        ({"begin": 1_900_000_000}, "-a 203003171746.40"),
        ({"mail_on": "begin,end,abort"}, "-m bea"),
        ({"requeue": False}, "-r n"),
        ({"hold": True}, "-h"),
        ({"gpus": 2}, "-l gpu=2"),
        ({"name": "12 ä"}, "-N j12"),
    ],
)
def test_grid_engine_is_asked_for(options: dict[str, object], line: str) -> None:
    assert line in lines(GE, **options)


@pytest.mark.parametrize(
    "options",
    [
        {"nodes": 2}, {"tasks": 2, "cores_per_task": 2}, {"qos": "x"}, {"array": "0-3"},
        {"gpus": 3, "tasks": 2}, {"gpus": "a100:1"}, {"licences": {"m": 1}, "tasks": 2},
        {"features": ["a b"]}, {"tasks": 4, "native": {"gridengine": ["-pe x 4"]}},
        {"time": 5, "native": {"gridengine": ["-l h_rt=9"]}}, {"node_kind": "k"},
        {"hold": Hold.SYSTEM},
    ],
)  # fmt: skip
def test_grid_engine_refuses_what_it_cannot_do(options: dict[str, object]) -> None:
    assert render(GE, **options).report.of(Fate.REFUSED)


def test_grid_engine_says_which_id_a_submission_got() -> None:
    ids = [GE.parse_submit(out) for out in said("gridengine", "submit_ok")]
    assert ids == ["2", "3", "4", "5", "6"]
    assert GE.parse_submit(Output(b"site check passed\n12\n")) == "12"
    for out in said("gridengine", "submit_errors"):
        if out.rc:
            with pytest.raises(Refused):
                GE.parse_submit(out)
    with pytest.raises(Unclear):
        GE.parse_submit(Output(b"", b"", 0))
    busy = b"error: commlib error: got select error (Connection refused)\n"
    with pytest.raises(Transient):
        GE.parse_submit(Output(b"", busy, 1))
    with pytest.raises(Denied):
        GE.parse_submit(Output(b"", b'Unable to run job: user "x" has no write access\n', 1))


def test_grid_engine_lists_jobs() -> None:
    records = by_id(GE.parse_live(ge("qstat_xml_r", "qstat -r -xml")))
    assert records["2"].state is JobState.RUNNING
    assert (records["2"].queue, records["2"].nodes) == ("all.q", ("localhost",))
    assert records["2"].started == 1796017442
    assert records["24"].state is JobState.HELD
    assert records["12"].state is JobState.QUEUED
    assert records["15"].state is JobState.FAILED
    assert records["15"].cause is Cause.LAUNCH_FAILURE


def test_elements_of_grid_engine_that_wait_share_a_line() -> None:
    records = by_id(GE.parse_live(ge("array_xml", "qstat -xml")))
    states = {element.index: element.state for element in records["30"].elements}
    assert states == {
        1: JobState.RUNNING, 2: JobState.RUNNING, 3: JobState.COMPLETING, 4: JobState.COMPLETING,
    }  # fmt: skip
    assert [element.id for element in records["31"].elements] == ["31.1", "31.2", "31.3", "31.4"]
    assert records["31"].state is JobState.HELD


def test_an_answer_of_grid_engine_that_was_cut_is_not_complete() -> None:
    whole = ge("qstat_xml", "qstat -xml").stdout
    cut = GE.parse_live(Output(whole[: len(whole) // 2]))
    assert not cut.complete
    assert cut.records
    assert GE.parse_live(Output(whole)).complete
    bad = whole.replace(b"<state>r</state>", b"<state>Y</state>")
    with pytest.raises(ParseError, match="'Y'"):
        GE.parse_live(Output(bad))


@pytest.mark.parametrize(
    ("number", "state", "code", "signal", "cause"),
    [
        ("19", JobState.DONE, 0, None, None),
        ("20", JobState.FAILED, 137, 9, None),
        ("21", JobState.TIMED_OUT, 137, 9, Cause.TIME_LIMIT),
        ("22", JobState.FAILED, 138, 10, None),
        ("23", JobState.FAILED, 2, None, None),
    ],
)
def test_grid_engine_tells_ends(
    number: str, state: JobState, code: int, signal: int | None, cause: Cause | None
) -> None:
    out = ge("qacct", f"qacct -j {number}")
    (record,) = GE.parse_history(out).records
    assert (record.id, record.state, record.exit_code, record.signal, record.cause) == (
        number, state, code, signal, cause,
    )  # fmt: skip


def test_a_job_over_its_h_vmem_ran_out_of_memory() -> None:
    text = (
        "=====\njobnumber    9\ntaskid       undefined\nslots        2\n"
        "failed       100 : assumedly after job\nexit_status  137                  (Killed)\n"
        "maxvmem      {}\ncategory     -l h_rt=20,h_vmem=100M\n"
    )
    states = [
        GE.parse_history(Output(text.format(peak).encode())).records[0].state
        for peak in ("250.123MB", "150.000MB")
    ]
    assert states == [JobState.OUT_OF_MEMORY, JobState.FAILED]


def test_grid_engine_has_no_record_of_a_job_that_will_run_again_or_is_not_known() -> None:
    assert GE.parse_history(ge("rerun", "qacct -j 33")).records == ()
    for out in (
        ge("unknown_job", "qacct -j 99999"),
        said("gridengine", "qacct_deleted_pending")[0],
    ):
        assert GE.parse_history(out).records == ()
        assert GE.parse_accounting(out, "9").exit_code is None


def test_an_older_job_of_the_same_id_is_another_job_of_grid_engine() -> None:
    out = ge("qacct", "qacct -j 19")
    assert GE.parse_history(out, since=1796017444.0).records
    assert not GE.parse_history(out, since=1796017444.0 + 7200).records


def test_grid_engine_tells_what_a_job_used() -> None:
    used = GE.parse_accounting(ge("qacct", "qacct -j 19"), "19")
    assert (used.cpu, used.cores, used.queue, used.account) == (0.006, 1, "long.q", "sge")
    assert (used.submitted, used.started, used.ended) == (1796017444.0,) * 3


def test_many_jobs_of_grid_engine_are_asked_for_at_once() -> None:
    question = GE.history(["3", "4.1", "4.2"], since=1796017444.0)
    assert question.command.argv[-1].startswith('exec qacct -o "$(id -un)" -b 2026')
    records = by_id(GE.parse_history(said("gridengine", "qacct_owner")[0]))
    assert records["15"].cause is Cause.LAUNCH_FAILURE


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("qdel 99999", {"99999": Outcome.ALREADY_FINAL}),
        ("qhold 99999", {"99999": Outcome.ALREADY_FINAL}),
        (
            "qdel 99999 26 88888",
            {"99999": Outcome.ALREADY_FINAL, "88888": Outcome.ALREADY_FINAL},
        ),
    ],
)
def test_grid_engine_says_how_an_action_went(command: str, expected: dict[str, Outcome]) -> None:
    assert GE.parse_action(ge("unknown_job", command)) == expected


def test_grid_engine_says_why_a_job_waits() -> None:
    listing = (
        b"<job_info><job_list><JB_job_number>24</JB_job_number><state>qw</state></job_list>"
        b"</job_info>"
    )
    told = ge("pending_reason", "qstat -j 12").stdout + b"========\n" + listing
    why = GE.parse_why(Output(told), "24")
    assert why.cause is Cause.RESOURCES
    assert "only offers 0 slots" in str(why)
    held = ge("qstat_j_held", "qstat -j 24").stdout + b"========\n" + listing
    assert "hold state" in str(GE.parse_why(Output(held), "24"))
    broken = ge("eqw_reason", "qstat -j 15").stdout + listing.replace(b"qw", b"Eqw")
    assert GE.parse_why(Output(broken), "24").cause is Cause.LAUNCH_FAILURE


def test_grid_engine_finds_a_job_by_its_token() -> None:
    text = "=====\njob_number:   7\ncontext:    gristmill=other\n=====\njob_number:   8\n"
    text += "context:     a=b,gristmill=t0\n"
    assert GE.parse_find(Output(text.encode()), "t0") == "8"
    none = Output(b"", b"Following jobs do not exist: \n*\n", 1)
    assert GE.parse_find(none, "t0") is None
    ended = Output(b"exit=0\nstart=1\nend=2\nhost=h\nid=9.3\n", none.stderr, 1)
    assert GE.parse_find(ended, "t0") == "9"
    with pytest.raises(Transient):
        GE.parse_find(Output(b"", b"error: unable to contact qmaster\n", 1), "t0")


def test_grid_engine_lists_machines_and_reads_ids() -> None:
    (node,) = GE.parse_nodes(ge("qhost", "qhost -xml"))
    assert (node.name, node.up, node.cores) == ("localhost", True, 2)
    spellings = [GE.canonical(text) for text in ("4.1-6:2", "4", "4.5 ")]
    assert spellings == ["4", "4", "4.5"]
    with pytest.raises(ParseError):
        GE.canonical("four")
