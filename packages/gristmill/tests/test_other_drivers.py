"""Drivers of managers that were not at hand, on outputs of the shape that others have published.

The samples are our own; their layout, dates and oddities follow the manuals and public listings.
"""

from __future__ import annotations

import pytest

from gristmill import registry
from gristmill.commands import Output
from gristmill.errors import HistoryUnavailable, ParseError, Transient, Unclear
from gristmill.jobs import Job, JobState, Relation
from gristmill.managers.base import Edge, Fate, Request
from gristmill.managers.htcondor import HtCondorDialect
from gristmill.managers.loadleveler import LoadLevelerDialect
from gristmill.managers.lsf import LsfDialect
from gristmill.managers.moab import MoabDialect
from gristmill.records import Cause, Outcome

LSF, MOAB, CONDOR, LL = LsfDialect(), MoabDialect(), HtCondorDialect(), LoadLevelerDialect()
TOKEN = "0123456789abcdef"
NAMES = ("pbspro", "torque", "moab", "loadleveler", "lsf", "htcondor")


def request(job: Job, **more: object) -> Request:
    return Request(spec=job.spec, token=TOKEN, body="echo hi\n", **more)  # type: ignore[arg-type]


# -- every attribute is accounted for, whatever the manager

EVERYTHING = Job(
    "x.sh",
    name="all of it",
    arguments=["a b"],
    directory="/scratch/me",
    environment={"A": "x,'y"},
    stdin="/dev/null",
    stdout="out.%j",
    stderr="err.%j",
    time="1h30m",
    nodes=2,
    tasks=4,
    tasks_per_node=2,
    cores_per_task=2,
    memory="4G",
    gpus="a100:2",
    queue="long",
    account="acc",
    project="prj",
    reservation="res",
    qos="high",
    priority=10,
    exclusive=True,
    features=["haswell"],
    node_kind="fast",
    mail_on="begin,end,abort",
    mail_to="me@example.org",
    hold=True,
    requeue=False,
    begin=1900000000,
    licences=["matlab:2"],
    array="1-9:2%3",
)
TOGETHER = {"script", "gpu_type"}  # only with another


@pytest.mark.parametrize("name", NAMES)
def test_every_attribute_has_a_fate(name: str) -> None:
    report = registry.dialect(name).render(request(EVERYTHING)).report
    told = {note.attribute for note in report.notes}
    assert told >= set(EVERYTHING.spec.asked()) - {"script"} | {"script"}
    refused = {note.attribute: note.why for note in report.of(Fate.REFUSED)}
    assert all(refused.values())
    assert "time" not in refused


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("attribute", sorted(set(EVERYTHING.spec.asked()) - TOGETHER))
def test_single_attributes_render(name: str, attribute: str) -> None:
    """Alone, each is written or refused; none raises."""
    value = getattr(EVERYTHING.spec, attribute)
    job = Job(script_text="echo hi\n").evolve(**{"join": False, attribute: value})
    rendering = registry.dialect(name).render(request(job))
    assert rendering.report[attribute].fate in Fate


@pytest.mark.parametrize("name", NAMES)
def test_a_native_option_that_is_set_twice_is_refused(name: str) -> None:
    option = {
        "loadleveler": "wall_clock_limit = 1:00:00",
        "htcondor": "allowed_execute_duration = 60",
        "lsf": "-W 60",
    }.get(name, "-l walltime=1:00:00")
    dialect = registry.dialect(name)
    job = Job("x.sh", time="2h", native={name: [option]})
    assert dialect.render(request(job)).report.of(Fate.REFUSED)
    alone = dialect.render(request(Job("x.sh", native={name: [option]})))
    assert not alone.report.of(Fate.REFUSED)
    sent = alone.script + "".join(file.content.decode() for file in alone.files)
    assert option in sent


@pytest.mark.parametrize("name", NAMES)
def test_lines_of_the_body_are_not_read_as_directives(name: str) -> None:
    body = "#!/bin/sh\n#PBS -q evil\n# @ class = evil\n#BSUB -q evil\n#MSUB -q evil\necho hi\n"
    dialect = registry.dialect(name)
    script = dialect.render(Request(spec=Job("x.sh").spec, token=TOKEN, body=body)).script
    if dialect.directive:
        lines = [line for line in script.splitlines() if "evil" in line]
        mine = {"moab": ("#MSUB", "#PBS", "# @")}.get(name, (dialect.directive,))
        assert not [line for line in lines if line.startswith(mine)]


# -- LSF

BJOBS = """LSF is processing your request. Please wait ...
{
  "COMMAND":"bjobs",
  "JOBS":5,
  "RECORDS":[
    {"JOBID":"11","JOBINDEX":"0","STAT":"EXIT","EXIT_CODE":"140",
     "EXIT_REASON":"TERM_RUNLIMIT: job killed after reaching LSF run time limit;",
     "PEND_REASON":"","EXEC_HOST":"2*n1:n2","QUEUE":"short","SUBMIT_TIME":"Dec 31 23:58",
     "START_TIME":"Dec 31 23:59","FINISH_TIME":"Jan  1 00:04 L","RUN_TIME":"300 second(s)",
     "CPU_USED":"299.5 second(s)","MAX_MEM":"1.5 Gbytes","JOB_DESCRIPTION":"gristmill:t1"},
    {"JOBID":"12","JOBINDEX":"0","STAT":"PSUSP","EXIT_CODE":"","EXIT_REASON":"",
     "PEND_REASON":"","EXEC_HOST":"","QUEUE":"short","JOB_DESCRIPTION":""},
    {"JOBID":"13","JOBINDEX":"1","STAT":"DONE","EXIT_CODE":"","EXIT_REASON":"",
     "PEND_REASON":"","EXEC_HOST":"n1","QUEUE":"short","JOB_DESCRIPTION":"gristmill:t3"},
    {"JOBID":"13","JOBINDEX":"2","STAT":"EXIT","EXIT_CODE":"5","EXIT_REASON":"",
     "PEND_REASON":"","EXEC_HOST":"n1","QUEUE":"short","JOB_DESCRIPTION":"gristmill:t3"},
    {"JOBID":"9","ERROR":"Job <9> is not found"}
  ]
}
"""
NEW_YEARS_EVE = 1798761480.0  # 2026-12-31 23:58 UTC


def test_lsf_states_reasons_and_elements() -> None:
    listing = LSF.parse_live(Output(BJOBS.encode(), b"", 255))
    found = {record.id: record for record in listing.records}
    assert listing.unknown == {"9"}
    assert (found["11"].state, found["11"].nodes) == (JobState.TIMED_OUT, ("n1", "n2"))
    assert (found["12"].state, found["12"].cause) == (JobState.HELD, Cause.HELD_BY_USER)
    assert [(e.index, e.state) for e in found["13"].elements] == [
        (0, JobState.DONE),
        (1, JobState.FAILED),
    ]
    assert found["13"].elements[1].id == LSF.element_id("13", 1) == "13[2]"


def test_lsf_times_without_a_year_are_those_after_submission() -> None:
    used = LSF.parse_accounting(Output(BJOBS.encode()), "11", NEW_YEARS_EVE)
    assert used.submitted == NEW_YEARS_EVE
    assert used.ended == NEW_YEARS_EVE + 360
    assert (used.wall, used.cpu, used.peak_memory) == (300.0, 299.5, 3 * 1024**3 // 2)


def test_lsf_history_is_unfolded() -> None:
    text = """------------------------------------------------------------------------------

Job <21>, Job Name <x>, Job Description <gristmill:t9>, User <me>, Project <default>
                     , Command <script>
Thu Dec 31 23:58:01: Submitted from host <n0>, to Queue <short>;
Thu Dec 31 23:58:02: Dispatched 1 Task(s) on Host(s) <n1>;
Thu Dec 31 23:58:02: Starting (Pid 4711);
Fri Jan  1 00:00:05: Exited with exit code 137. The CPU time used is 1.0 seconds;
Fri Jan  1 00:00:05: Completed <exit>; TERM_MEMLIMIT: job killed after reaching LSF
                      memory usage limit;

Summary of time in seconds spent in various states
"""
    (record,) = LSF.parse_history(Output(text.encode()), NEW_YEARS_EVE).records
    assert (record.state, record.token) == (JobState.OUT_OF_MEMORY, "t9")
    assert record.ended == NEW_YEARS_EVE + 125


def test_lsf_answers() -> None:
    wait = b"LSF is processing your request. Please wait ...\n"
    assert LSF.parse_submit(Output(wait + b"Job <77> is submitted to default queue <normal>.\n"))
    with pytest.raises(Unclear):
        LSF.parse_submit(Output())
    with pytest.raises(Transient):
        LSF.parse_live(Output(b"", b"Cannot connect to LSF. Please wait ...\n", 255))
    assert LSF.parse_live(Output(b"", b"Job <9> is not found\n", 255)).unknown == {"9"}
    assert LSF.parse_live(Output(b"", b"No unfinished job found\n", 0)).records == ()
    cut = LSF.parse_live(Output(BJOBS[:620].encode()))
    assert not cut.complete
    assert len(cut.records) == 1
    said = Output(b"", b"Job <1>: Job has already finished\nJob <2>: No matching job found\n", 255)
    assert LSF.parse_action(said) == {"1": Outcome.ALREADY_FINAL, "2": Outcome.UNKNOWN}


def test_lsf_dependencies() -> None:
    edges = (
        Edge(Relation.AFTER_OK, "1"),
        Edge(Relation.AFTER_NOT_OK, "2", is_array=True),
        Edge(Relation.AFTER_OK, "3", element_wise=True, is_array=True),
    )
    script = LSF.render(request(Job("x.sh"), edges=edges)).script
    assert (
        "#BSUB -w 'done(1) && ended(2) && numexit(2, > 0) && done(\"3[*]\")'" in script
    )  # and no job pends for ever
    assert "#BSUB -ti" in script


def test_lsf_minutes_are_rounded_up() -> None:
    note = LSF.render(request(Job("x.sh", time=61))).report["time"]
    assert (note.fate, note.given) == (Fate.ROUNDED, "-W 2")


# -- Moab

SHOWQ = """
<Data><Object>queue</Object><cluster time="1"/>
 <queue count="1" option="active">
  <job JobID="41" DRMJID="41.mg1" JobName="a.t1" State="Running" StartTime="100" Class="c"
   MasterHost="n1" SubmissionTime="90" User="me"/>
 </queue>
 <queue count="2" option="blocked">
  <job JobID="42" JobName="b" State="UserHold" StartTime="0" SubmissionTime="91" User="me"/>
  <job JobID="43" JobName="a &lt;b&gt; &quot;c&quot;" State="Idle" BlockReason="Dependency"
   StartTime="0" SubmissionTime="92" User="me"/>
 </queue>
</Data>"""


def done(id: str, code: str) -> str:
    return (
        f'<job JobID="{id}" JobName="x.{TOKEN}" State="Completed" CompletionCode="{code}" '
        f'CompletionTime="200" StartTime="100" SubmissionTime="90" AWDuration="100"/>'
    )


def test_moab_states() -> None:
    listing = MOAB.parse_queue(Output(SHOWQ.encode()), [])
    assert [(r.id, r.state, r.cause) for r in listing.records] == [
        ("41", JobState.RUNNING, None),
        ("42", JobState.HELD, Cause.HELD_BY_USER),
        ("43", JobState.QUEUED, Cause.DEPENDENCY),
    ]
    assert listing.complete
    assert not MOAB.parse_queue(Output(SHOWQ[:300].encode()), []).complete


@pytest.mark.parametrize(
    ("code", "state", "exit_code"),
    [
        ("0", JobState.DONE, 0),
        ("3", JobState.FAILED, 3),
        ("265", JobState.FAILED, 137),
        ("CNCLD", JobState.CANCELLED, None),
        ("CNCLD(271)", JobState.CANCELLED, None),
        ("271", JobState.CANCELLED, None),
        ("-11", JobState.TIMED_OUT, None),
    ],
)
def test_moab_completion_codes(code: str, state: JobState, exit_code: int | None) -> None:
    out = Output(f"<Data>{done('5', code)}</Data>".encode())
    (record,) = MOAB.parse_queue(out, ["5"]).records
    assert (record.state, record.exit_code) == (state, exit_code)


def test_moab_answers() -> None:
    assert MOAB.parse_submit(Output(b"\n4711\n")) == "4711"
    assert MOAB.parse_submit(Output(b"\nMoab.4711\n")) == "4711"
    timed_out = b"\nERROR:  client timed out after 30 seconds (hostname:port=mg1:42559)\n"
    with pytest.raises(Unclear):
        MOAB.parse_submit(Output(b"", timed_out, 1))
    with pytest.raises(Transient):
        MOAB.parse_queue(Output(b"", b"ERROR:    communication error mg1:42559 (no)\n", 1), [])
    both = f"{SHOWQ}<Data>{done('6', '0')}</Data>"
    assert MOAB.parse_find(Output(both.encode()), TOKEN) == "6"
    assert MOAB.canonical("4711*") == MOAB.canonical("4711.mg1.site") == "4711"
    unknown = Output(b"", b"\nERROR:  invalid job specified (4711)\n", 1)
    assert MOAB.parse_action(unknown) == {"4711": Outcome.UNKNOWN}


# -- LoadLeveler


def step(status: str, **more: str) -> str:
    pairs = {"Job Step Id": "n1.12.0", "Status": status, **more}
    lines = (f"{key.replace('_', ' '):>19}: {value}" for key, value in pairs.items())
    return "===== Job Step n1.12.0 =====\n" + "\n".join(lines) + "\n"


@pytest.mark.parametrize(
    "date",
    [
        "Wed Sep  7 17:38:31 2016",
        "Wed Sep  7 17:38:31 UTC 2016",
        "Wed 07 Sep 2016 05:38:31 PM UTC",
    ],
)
def test_loadleveler_reads_dates_of_several_sites(date: str) -> None:
    (record,) = LL.parse_steps(Output(step("Idle", Queue_Date=date).encode())).records
    assert record.submitted == 1473269911.0


@pytest.mark.parametrize(
    ("status", "code", "state", "exit_code"),
    [
        ("Completed", "0", JobState.DONE, 0),
        ("Completed", "768", JobState.FAILED, 3),
        ("Completed", "9", JobState.FAILED, 137),
        ("Removed", "", JobState.CANCELLED, None),
        ("Not Run", "", JobState.CANCELLED, None),
        ("Rejected", "", JobState.FAILED, None),
        ("Vacated", "", JobState.NODE_FAILURE, None),
    ],
)
def test_loadleveler_ends(status: str, code: str, state: JobState, exit_code: int | None) -> None:
    (record,) = LL.parse_steps(Output(step(status, Completion_Code=code).encode())).records
    assert (record.state, record.exit_code) == (state, exit_code)


def test_loadleveler_tells_a_time_limit_by_the_clock() -> None:
    text = step(
        "Removed",
        Dispatch_Time="Wed Sep  7 17:00:00 2016",
        Completion_Date="Wed Sep  7 17:01:02 2016",
        Wall_Clk_Hard_Limit="00:01:00 (60 seconds)",
    )
    assert LL.parse_steps(Output(text.encode())).records[0].state is JobState.TIMED_OUT


def test_loadleveler_answers() -> None:
    text = b'Accounting: 5 h left\nllsubmit: The job "n1.site.org.281506" has been submitted.\n'
    assert LL.parse_submit(Output(text)) == "n1.281506.0"
    assert LL.canonical("n1.site.org.281506.0") == LL.canonical("n1.281506.0")
    nothing = Output(b"llq: There is currently no job status to report.\n")
    assert LL.parse_steps(nothing).records == ()
    with pytest.raises(HistoryUnavailable):
        LL.parse_history(Output(b"", b"llsummary: cannot open the history file\n", 1))
    ended = b"llq: There is currently no job status to report.\nexit=0\nstart=1\nid=n1.12.0\n"
    assert LL.parse_find(Output(ended), TOKEN) == "n1.12.0"
    with pytest.raises(ParseError):
        LL.parse_steps(Output(step("Daydreaming").encode()))


# -- HTCondor


def test_htcondor_holds_are_failures_unless_meant() -> None:
    def state(text: str) -> JobState:
        ad = '[\n{\n  "ClusterId": 7,\n  "ProcId": 0,\n' + text + "\n}\n]\n"
        return CONDOR.parse_jobs(Output(ad.encode())).records[0].state

    assert state('  "JobStatus": 5,\n  "HoldReasonCode": 1') is JobState.HELD
    assert state('  "JobStatus": 5,\n  "HoldReasonCode": 34') is JobState.OUT_OF_MEMORY
    assert state('  "JobStatus": 5,\n  "HoldReasonCode": 47') is JobState.TIMED_OUT
    assert state('  "JobStatus": 5,\n  "HoldReasonCode": 13') is JobState.FAILED
    assert state('  "JobStatus": 4,\n  "ExitBySignal": true,\n  "ExitSignal": 9') is JobState.FAILED
    assert state('  "JobStatus": 4') is JobState.FAILED  # no exit code is no success
    with pytest.raises(ParseError):
        state('  "JobStatus": 8')


def test_htcondor_answers() -> None:
    assert CONDOR.parse_submit(Output(b"Welcome\n123.0 - 123.9\n")) == "123"
    assert CONDOR.parse_jobs(Output()).complete
    assert CONDOR.canonical("123.0") == "123"
    gone = Output(b"", b"Couldn't find/remove all jobs in cluster 123\n", 1)
    assert CONDOR.parse_action(gone, ["123"]) == {"123": Outcome.ALREADY_FINAL}
    with pytest.raises(Transient):
        CONDOR.parse_jobs(Output(b"", b"-- Failed to fetch ads from: <10.0.0.1:9618>\n", 1))
