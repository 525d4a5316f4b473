"""The drivers of PBS Pro and Torque on what the real ones printed, and on worse."""

from __future__ import annotations

from pathlib import Path

import pytest

from gristmill.commands import Output
from gristmill.errors import HistoryUnavailable, ParseError, Refused, Transient, Unclear
from gristmill.jobs import Hold, Job, JobState
from gristmill.managers.base import Fate, Request
from gristmill.managers.pbspro import PbsProDialect
from gristmill.managers.torque import TorqueDialect
from gristmill.records import Cause, Outcome, Record
from gristmill.testing import recorded

RECORDED = Path(__file__).parent / "recorded"
PBS, TORQUE = PbsProDialect(), TorqueDialect()
TOKEN = "0123456789abcdef"


def said(manager: str, name: str) -> Output:
    return next(iter(recorded(RECORDED / manager / f"{name}.txt").values()))


def pbs(name: str, *ids: str) -> Record:
    return PBS.parse_jobs(said("openpbs", name), ids).records[0]


def torque(name: str, *ids: str) -> Record:
    return TORQUE.parse_jobs(said("torque", name), ids).records[0]


@pytest.mark.parametrize(
    ("name", "state", "cause", "code"),
    [
        ("query_completed", JobState.DONE, None, 0),
        ("query_failed_exit3", JobState.FAILED, Cause.EXIT_CODE, 3),
        ("query_failed_sig9", JobState.FAILED, Cause.EXIT_CODE, 137),
        ("query_cancelled_running", JobState.CANCELLED, Cause.CANCELLED, 143),
        ("query_cancelled_pending", JobState.CANCELLED, Cause.CANCELLED, None),
        ("query_dep_on_failed", JobState.CANCELLED, Cause.DEPENDENCY_NEVER, None),
        ("gone_dep", JobState.CANCELLED, Cause.DEPENDENCY_NEVER, None),
        ("query_timeout", JobState.TIMED_OUT, None, None),
        ("query_memkill", JobState.OUT_OF_MEMORY, None, None),
        ("query_pending_dep", JobState.QUEUED, Cause.DEPENDENCY, None),
        ("query_held", JobState.HELD, Cause.HELD_BY_USER, None),
        ("query_waiting_a", JobState.QUEUED, Cause.BEGIN_TIME, None),
    ],
)
def test_states_of_openpbs(
    name: str, state: JobState, cause: Cause | None, code: int | None
) -> None:
    record = pbs(name)
    assert (record.state, record.cause, record.exit_code) == (state, cause, code)


@pytest.mark.parametrize(
    ("name", "state", "cause", "code"),
    [
        ("query_completed_xml", JobState.DONE, None, 0),
        ("query_failed_exit3_xml", JobState.FAILED, Cause.EXIT_CODE, 3),
        ("query_pending_dep_xml", JobState.QUEUED, Cause.DEPENDENCY, None),
        ("query_dep_on_failed_xml", JobState.CANCELLED, Cause.DEPENDENCY_NEVER, None),
    ],
)
def test_states_of_torque(
    name: str, state: JobState, cause: Cause | None, code: int | None
) -> None:
    record = torque(name)
    assert (record.state, record.cause, record.exit_code) == (state, cause, code)


def test_times_are_those_of_the_server() -> None:
    """ctime text in UTC with OpenPBS, epoch with Torque."""
    assert pbs("query_failed_exit3").started == 1796021461.0
    assert torque("query_failed_exit3_xml").ended == 1796022403.0


def test_elements_come_under_their_array() -> None:
    live = pbs("query_array_sub_json", "29[].pbshost")
    assert live.id == "29[].pbshost"
    assert [element.index for element in live.elements] == [0, 1, 2, 3]
    assert live.elements[3].id == PBS.element_id("29[].pbshost", 3)
    done = pbs("query_array_done_t_json", "29[].pbshost")
    assert done.state is JobState.FAILED
    assert {element.index: element.state for element in done.elements}[1] is not None
    xml = torque("query_array_sub_xml", "26[].vm")
    assert [element.index for element in xml.elements] == [0, 1, 2, 3]


def test_an_array_of_torque_may_be_answered_with_everything() -> None:
    everything = said("torque", "query_xml_full")
    asked = TORQUE.parse_jobs(everything, ["3.vm"])
    assert [record.id for record in asked.records] == ["3.vm"]
    assert len(TORQUE.parse_jobs(everything, ()).records) > 3


def test_unknown_ids_are_told_and_the_others_still_count() -> None:
    mixed = PBS.parse_jobs(said("openpbs", "query_mixed_json"), ["0.pbshost", "99999.pbshost"])
    assert mixed.unknown == {"99999.pbshost"}
    assert mixed.records
    assert PBS.parse_jobs(said("openpbs", "query_unknown_json"), ["99999"]).unknown == {"99999"}
    nothing = TORQUE.parse_jobs(said("torque", "query_unknown_xml"), ["99999.localhost"])
    assert nothing.unknown == {"99999.localhost"}


def test_a_skeleton_without_jobs_proves_nothing_when_the_server_is_away() -> None:
    with pytest.raises(Transient):
        PBS.parse_jobs(said("openpbs", "really_down_qstat"), ["1.pbshost"])
    ended = PBS.parse_jobs(said("openpbs", "query_finished_without_x_json"), ["16.pbshost"])
    assert ended.records == ()
    with pytest.raises(HistoryUnavailable):
        PBS.parse_jobs(said("openpbs", "query_finished_no_history"), ["0.pbshost"])


def test_submission_answers() -> None:
    assert PBS.parse_submit(said("openpbs", "submit")) == "1.pbshost"
    assert PBS.parse_submit(said("openpbs", "submit_array")) == "5[].pbshost"
    assert TORQUE.parse_submit(said("torque", "submit_array")) == "4[].vm"
    noisy = Output(b"Welcome. Bonne journ\xe9e\nYou have 12.5 hours left\n\n17.head01.site\n")
    assert PBS.parse_submit(noisy) == "17.head01.site"
    for name in ("submit_badqueue", "submit_badres", "submit_badwalltime", "submit_badname"):
        with pytest.raises(Refused):
            PBS.parse_submit(said("openpbs", name))
        with pytest.raises(Refused):
            TORQUE.parse_submit(said("torque", name))
    with pytest.raises(Transient):
        PBS.parse_submit(said("openpbs", "really_down_qsub"))
    with pytest.raises(Unclear):
        PBS.parse_submit(Output())
    with pytest.raises(Unclear):
        PBS.parse_submit(Output(b"", b"qsub: Communication failure\n", 183))


def test_actions_tell_each_id() -> None:
    assert PBS.parse_action(said("openpbs", "del_finished"), ["16.pbshost"]) == {
        "16.pbshost": Outcome.ALREADY_FINAL
    }
    assert PBS.parse_action(said("openpbs", "hold_finished"), ["16.pbshost"]) == {
        "16.pbshost": Outcome.ALREADY_FINAL
    }
    assert PBS.parse_action(said("openpbs", "del_unknown"), ["99999"]) == {"99999": Outcome.UNKNOWN}
    assert TORQUE.parse_action(said("torque", "del_finished"), ["14.vm"]) == {
        "14.vm": Outcome.ALREADY_FINAL
    }
    # rc 153 and silence
    assert TORQUE.parse_action(said("torque", "hold_unknown"), ["99999"]) == {
        "99999": Outcome.UNKNOWN
    }
    with pytest.raises(Transient):
        PBS.parse_action(said("openpbs", "really_down_qdel"), ["1"])


def test_broken_json_is_read_as_far_as_it_goes() -> None:
    good = said("openpbs", "query_failed_exit3")
    bad = good.stdout.replace(b'"/opt/pbs/bin:/usr/bin:/bin"', b'"it\\\'s\\, \x01"', 1)
    assert PBS.parse_jobs(Output(bad), ()).records[0].exit_code == 3
    bare = good.stdout.replace(b'"Priority":\t0', b'"Priority":\t007')
    assert PBS.parse_jobs(Output(bare), ()).records[0].exit_code == 3
    everything = said("openpbs", "query_all_json").stdout
    whole = PBS.parse_jobs(Output(everything), ())
    cut = PBS.parse_jobs(Output(everything[: len(everything) // 2]), ())
    assert whole.complete
    assert not cut.complete
    assert 0 < len(cut.records) < len(whole.records)
    assert not PBS.parse_jobs(Output(), ()).complete


def test_cut_xml_gives_its_whole_jobs() -> None:
    everything = said("torque", "query_xml_full").stdout
    cut = TORQUE.parse_jobs(Output(everything[: len(everything) // 2]), ())
    assert not cut.complete
    assert cut.records
    noisy = Output(b"Bonjour \xe9\xff\n" + everything)
    assert TORQUE.parse_jobs(noisy, ()).complete
    with pytest.raises(ParseError):
        TORQUE.parse_jobs(Output(everything.replace(b"<job_state>Q", b"<job_state>Z")), ())


def test_the_mark_is_found_even_when_it_looks_like_a_number() -> None:
    text = said("openpbs", "query_held").stdout.decode()
    marked = text.replace('"PBS_O_HOME"', '"GRISTMILL_MARK":\t"gm.0000000000000042",\n"PBS_O_HOME"')
    (id,) = (record.id for record in PBS.parse_jobs(Output(text.encode()), ()).records)
    assert PBS.parse_find(Output(marked.encode()), "0000000000000042") == id
    assert PBS.parse_find(Output(text.encode()), TOKEN) is None
    with pytest.raises(Unclear):
        PBS.parse_find(Output(text[: len(text) // 2].encode()), TOKEN)


def test_ids_with_another_spelling_of_the_server_are_the_same_job() -> None:
    text = said("openpbs", "query_failed_exit3").stdout.replace(b"16.pbshost", b"16.pbshost.site")
    assert PBS.parse_jobs(Output(text), ["16.pbshost"]).records[0].id == "16.pbshost"
    assert PBS.parse_jobs(Output(text), ["16"]).records[0].id == "16"


def test_queues_and_nodes() -> None:
    assert PBS.parse_queues(said("openpbs", "queues"))[0].name == "workq"
    node = PBS.parse_nodes(said("openpbs", "pbsnodes_json"))[0]
    assert (node.name, node.cores, node.free_cores, node.up) == ("pbshost", 4, 3, True)
    queue = TORQUE.parse_queues(said("torque", "queues"))[0]
    assert (queue.name, queue.default_time, queue.waiting) == ("batch", 3600, 4)
    assert TORQUE.parse_nodes(said("torque", "pbsnodes_xml"))[0].memory == 24684084 * 1024


def request(job: Job, **more: object) -> Request:
    return Request(spec=job.spec, token=TOKEN, body="echo hi\n", **more)  # type: ignore[arg-type]


def test_resources_are_written_as_each_reads_them() -> None:
    job = Job("x.sh", nodes=2, tasks_per_node=8, memory="4G", time="36h", gpus=4, queue="long")
    script = PBS.render(request(job)).script
    assert "#PBS -l select=2:ncpus=8:mpiprocs=8:mem=2097152kb:ngpus=2" in script
    assert "#PBS -l walltime=36:00:00" in script
    script = TORQUE.render(request(job)).script
    assert "#PBS -l nodes=2:ppn=8:gpus=2" in script
    assert "#PBS -l mem=4194304kb" in script


def test_nothing_is_dropped_in_silence() -> None:
    job = Job("x.sh", qos="high", array="1,5,7")
    report = PBS.render(request(job)).report
    assert {note.attribute for note in report.of(Fate.REFUSED)} == {"qos", "array"}
    assert "#PBS -t 1,5,7" in TORQUE.render(request(Job("x.sh", array="1,5,7"))).script
    stepped = TORQUE.render(request(Job("x.sh", array="0-8:4%2"))).script
    assert "#PBS -t 0,4,8%2" in stepped
    held = PBS.render(request(Job("x.sh", hold=Hold.SYSTEM))).report
    assert held.of(Fate.REFUSED)[0].attribute == "hold"


def test_names_are_what_the_manager_takes() -> None:
    job = Job("x.sh", name="1 ä/b:c%d,e f" * 20)
    assert len(PBS.render(request(job)).report["name"].given) <= 233
    line = TORQUE.render(request(job)).report["name"]
    assert line.fate is Fate.ROUNDED
    assert len(line.given.removeprefix("-N ")) <= 15
    assert line.given.removeprefix("-N ")[0].isalpha()


def test_an_expired_element_without_its_status_is_left_to_the_history() -> None:
    text = said("openpbs", "query_array_sub_json").stdout.replace(
        b'"job_state":\t"R"', b'"job_state":\t"X"', 1
    )
    (array,) = PBS.parse_jobs(Output(text), ["29[].pbshost"]).records
    assert [element.index for element in array.elements] == [1, 2, 3]


def test_ten_thousand_jobs_are_read_quickly_enough() -> None:
    """A listing of a big site: what matters is that nothing grows with the square."""
    text = said("openpbs", "query_failed_exit3").text
    entry = text[text.index('\t\t"16.pbshost"') : text.index("\n\t}\n}")]
    entries = ",\n".join(entry.replace("16.pbshost", f"{n}.pbshost") for n in range(10_000))
    whole = text.replace(entry, entries).encode()
    assert len(PBS.parse_jobs(Output(whole), ()).records) == 10_000
    job = next(iter(recorded(RECORDED / "torque" / "query_failed_exit3_xml.txt").values())).text
    block = job[job.index("<Job>") : job.index("</Data>")]
    blocks = "".join(block.replace("14.vm", f"{n}.vm") for n in range(10_000))
    assert len(TORQUE.parse_jobs(Output(job.replace(block, blocks).encode()), ()).records) == 10_000
