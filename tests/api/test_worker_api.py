"""The worker protocol, spoken by a fake worker over HTTP against the real scheduler."""

import asyncio
import hashlib
from types import SimpleNamespace

import pytest
from sqlalchemy import select

from backend.app.db import core
from backend.app.worker_api.reports import log_rows
from tests.experiments.cases import with_block
from tests.fake_worker import arrow, numbers, wait_for
from tests.lab import experiment


async def started(person, name="first", **changes):
    made = await person.client.post("/experiments", json=experiment(name, **changes))
    assert made.status_code == 201, made.text
    url = f"/experiments/{made.json()['id']}"
    answer = await person.client.post(f"{url}/start")
    assert answer.status_code == 200, answer.text
    return SimpleNamespace(id=made.json()["id"], url=url)


async def state(person, run):
    return (await person.client.get(run.url)).json()["state"]


async def blocks(person, run):
    found = (await person.client.get(f"{run.url}/snapshot")).json()["blocks"]
    return {block["name"]: block for block in found}


async def run_all(worker, person, run, *states):
    async def ended():
        return await state(person, run) in (states or ("done",))

    await worker.work(ended)
    return await wait_for(person, run.id, *(states or ("done",)))


# ---- registration ----


async def test_registration_says_who_the_worker_is(worker, root):
    found = (await root.client.get("/workers")).json()["items"]
    assert [(w["name"], w["state"], w["sandbox"]) for w in found] == [("w1", "online", "none")]
    assert worker.registered["shared_cache"] is False
    assert worker.registered["worker"] == found[0]["id"]
    beat = await worker.heartbeat()
    assert (beat["cancel"], beat["drain"]) == ([], False)


async def test_the_shared_cache_is_proved_both_ways(make_worker, services):
    worker = await make_worker(cache=services.settings.cache)
    await worker.register()
    assert worker.registered["shared_cache"] is True
    assert len(list((services.settings.cache / "proof").glob("*.server"))) == 1
    await worker.register(cache_nonce="0" * 64)
    assert worker.registered["shared_cache"] is False


async def test_wrong_credentials_names_and_protocols_are_refused(make_worker, worker):
    other = await make_worker("w2")
    assert (await other.register(name="w1")).status_code == 403
    assert (await other.register(protocol=99)).status_code == 422
    assert (await other.register(cores=0)).status_code == 422
    other.credential = other.credential[:-1] + "x"
    assert (await other.register()).status_code == 401
    other.credential = worker.token
    assert (await other.register()).status_code == 401


async def test_an_older_process_of_the_same_name_is_fenced(make_worker, worker, ann):
    run = await started(ann)
    (assignment,) = (await worker.poll())["assignments"]
    newer = await make_worker()
    newer.credential = worker.credential
    assert (await newer.register()).status_code == 200
    for path, body in (
        ("heartbeat", {"running": []}),
        ("poll", {"running": [], "wait": 0}),
        ("reports", {"reports": []}),
    ):
        refused = await worker.call(path, **body)
        assert (refused.status_code, refused.json()["code"]) == (409, "fenced")
    (again,) = (await newer.poll())["assignments"]
    assert again["block"] == assignment["block"]
    assert again["attempt"] != assignment["attempt"]
    await newer.run(again)
    await run_all(newer, ann, run)


async def test_a_poll_that_waits_is_fenced_too(make_worker, worker, ann):
    waiting = asyncio.create_task(worker.call("poll", running=[], wait=10))
    await asyncio.sleep(0.1)
    newer = await make_worker()
    newer.credential = worker.credential
    await newer.register()
    run = await started(ann)
    assert (await waiting).status_code == 409
    await run_all(newer, ann, run)


async def test_worker_tokens_are_for_the_protocol_alone(worker, people, ann):
    stranger = people.bearer(worker.token)
    for path in ("/me", "/experiments", "/admin/state", "/workers"):
        assert (await stranger.get(path)).status_code == 401
    person = people.bearer(ann.token)
    body = {"session": worker.registered["session"], "running": []}
    assert (await person.post("/worker/heartbeat", json=body)).status_code == 401


# ---- a run ----


@pytest.mark.parametrize("shared", [False, True], ids=["over HTTP", "shared cache"])
async def test_an_experiment_runs_and_its_second_run_is_cached(
    make_worker, services, ann, bob, shared
):
    worker = await make_worker(cache=services.settings.cache if shared else None)
    await worker.register()
    run = await started(ann)
    await run_all(worker, ann, run)
    assert worker.done == ["numbers", "double", "sum"]
    results = (await ann.client.get(f"{run.url}/results")).json()
    total = {"type": "int32", "value": 90, "display": True}
    assert results == {"analyzers": [{"block": "sum", "results": {"total": total}}]}
    again = await started(bob, "again")
    found = await wait_for(bob, again.id, "done")
    assert found["counts"] == {"cached": 3}
    assert (await bob.client.get(f"{again.url}/results")).json() == results
    assert worker.done == ["numbers", "double", "sum"]
    assert not list((services.settings.cache / "incoming").iterdir())


async def test_events_are_dense_and_tell_the_run(worker, ann):
    run = await started(ann)
    await run_all(worker, ann, run)
    page = (await ann.client.get(f"{run.url}/events")).json()
    assert [event["seq"] for event in page["events"]] == list(range(1, page["last_seq"] + 1))
    assert page["ended"] is True
    states = [e["details"]["state"] for e in page["events"] if e["block"] == "double"]
    assert states == ["queued", "assigned", "running", "done"]
    whole = [e["details"]["state"] for e in page["events"] if e["kind"] == "experiment"]
    assert whole == ["pending", "running", "done"]
    rest = (await ann.client.get(f"{run.url}/events", params={"after": 3, "limit": 2})).json()
    assert [event["seq"] for event in rest["events"]] == [4, 5]
    assert rest["ended"] is False


async def test_assignments_hold_everything_that_a_job_is(worker, ann):
    run = await started(ann)
    (dataset,) = (await worker.poll())["assignments"]
    assert dataset["files"] == {"algorithm/view.py": "class Train: pass"}
    assert (dataset["owner"], dataset["experiment"]) == ("ann", run.id)
    await worker.run(dataset)
    (block,) = (await worker.poll())["assignments"]
    assert block["files"] == {
        "algorithm/algorithm.py": "class Algorithm: pass",
        "libraries/ann/base/1/b.py": "y = 1",
        "libraries/ann/maths/1/m.py": "x = 1",
    }
    assert block["environment"] == ["Python", "1"]
    assert block["limits"] == {"memory_mb": 1024, "time_seconds": 60, "cores": 1}
    assert block["job"]["limits"] == block["limits"]
    assert block["job"]["range"] is None
    files = block["job"]["inputs"][0]["files"]
    assert files == [{"path": "inputs/0_0.arrow", "first": 0, "last": 9}]
    assert [file["path"] for file in block["inputs"]] == ["inputs/0_0.arrow"]


async def test_a_split_block_is_several_jobs_and_one_result(worker, ann):
    run = await started(ann, declaration=with_block(nb_slots=3))
    (dataset,) = (await worker.poll())["assignments"]
    await worker.run(dataset)
    parts = []
    while len(parts) < 3:
        parts += (await worker.poll())["assignments"]
    ranges = sorted(tuple(part["job"]["range"]) for part in parts)
    assert [first for first, _ in ranges] == [0, *(last + 1 for _, last in ranges[:-1])]
    assert ranges[-1][1] == 9
    for part in parts:
        await worker.run(part)
    await run_all(worker, ann, run)
    detail = (await ann.client.get(f"{run.url}/blocks/double")).json()
    assert len(detail["attempts"]) == 3
    assert detail["outputs"] == [
        {"name": "out", "format": "ann/integer/1", "rows": 10, "size": detail["outputs"][0]["size"]}
    ]
    results = (await ann.client.get(f"{run.url}/results")).json()
    assert results["analyzers"][0]["results"]["total"]["value"] == 90
    preview = await ann.client.get(f"{run.url}/blocks/double/outputs/out", params={"offset": 4})
    items = preview.json()["items"]
    assert items[0] == {"start": 4, "end": 4, "value": {"value": 8}}
    assert len(items) == 6


async def test_changing_slots_and_queue_is_a_hit(worker, ann):
    await run_all(worker, ann, await started(ann))
    run = await started(ann, "other", declaration=with_block(nb_slots=2, queue="long"))
    assert (await wait_for(ann, run.id, "done"))["counts"] == {"cached": 3}


async def test_why_it_waits_and_what_happened_are_told(make_worker, ann):
    run = await started(ann)
    url = f"{run.url}/blocks"
    found = (await ann.client.get(f"{url}/numbers/explain")).json()
    assert (found["block"], found["constraint"]) == ("numbers", "worker")
    waits = (await ann.client.get(f"{url}/double")).json()["explanation"]
    assert (waits["block"], waits["constraint"]) == ("double", "inputs")
    assert "numbers" in waits["message"]
    worker = await make_worker()
    await worker.register()
    await run_all(worker, ann, run)
    rest = (await ann.client.get(f"{url}/numbers/explain")).json()
    assert (rest["constraint"], rest["message"][:10]) == ("none", "it is done")
    lines = (await ann.client.get(f"{url}/numbers/story")).json()["lines"]
    assert [line["time"] for line in lines] == sorted(line["time"] for line in lines)
    assert any("w1" in line["text"] for line in lines)
    assert (await ann.client.get(f"{url}/nothing/story")).status_code == 404


async def test_an_output_that_is_no_data_file_is_told(worker, ann):
    run = await started(ann)
    (dataset,) = (await worker.poll())["assignments"]
    data = b"not an Arrow file"
    file = {
        "output": "value",
        "first": 0,
        "last": 9,
        "rows": 10,
        "size": len(data),
        "sha256": hashlib.sha256(data).hexdigest(),
        "path": "0.arrow",
    }
    await worker.send(dataset["attempt"], file, data)
    end = {"kind": "finished", "attempt": dataset["attempt"], "outcome": "done", "outputs": [file]}
    assert await worker.report(end) == ["taken"]
    answer = await ann.client.get(f"{run.url}/blocks/numbers/outputs/value")
    assert (answer.status_code, answer.json()["code"]) == (409, "unreadable")


# ---- stop, delete, start again ----


async def test_stop_is_over_when_the_worker_says_so(worker, ann):
    run = await started(ann)
    (assignment,) = (await worker.poll())["assignments"]
    await worker.start(assignment)
    assert (await ann.client.post(f"{run.url}/stop")).json()["state"] == "cancelling"
    assert (await worker.heartbeat())["cancel"] == [assignment["attempt"]]
    assert (await worker.poll(wait=0))["cancel"] == [assignment["attempt"]]
    await worker.report(
        {"kind": "finished", "attempt": assignment["attempt"], "outcome": "cancelled"}
    )
    assert await state(ann, run) == "cancelled"
    worker.running.clear()
    again = await ann.client.post(f"{run.url}/start")
    assert again.status_code == 200, again.text
    await run_all(worker, ann, run)
    detail = (await ann.client.get(f"{run.url}/blocks/numbers")).json()
    assert [attempt["number"] for attempt in detail["attempts"]] == [2, 1]
    events = (await ann.client.get(f"{run.url}/events")).json()
    assert [e["seq"] for e in events["events"]] == list(range(1, events["last_seq"] + 1))


async def test_a_running_experiment_is_deleted_when_it_is_at_rest(worker, ann, services):
    run = await started(ann)
    (assignment,) = (await worker.poll())["assignments"]
    await worker.start(assignment)
    etag = (await ann.client.get(run.url)).headers["ETag"]
    gone = await ann.client.delete(run.url, headers={"If-Match": etag})
    assert gone.status_code == 204
    assert await state(ann, run) == "deleting"
    await worker.report(
        {"kind": "finished", "attempt": assignment["attempt"], "outcome": "cancelled"}
    )
    assert (await ann.client.get(run.url)).status_code == 404
    async with services.sessions() as session:
        assert (await session.execute(select(core.attempt))).all() == []


async def test_a_running_experiment_cannot_be_started_nor_a_done_one_stopped(worker, ann):
    run = await started(ann)
    twice = await ann.client.post(f"{run.url}/start")
    assert twice.status_code == 409
    await run_all(worker, ann, run)
    assert (await ann.client.post(f"{run.url}/stop")).status_code == 409


async def test_a_done_experiment_started_again_is_done_at_once_from_the_cache(worker, ann):
    run = await started(ann)
    await run_all(worker, ann, run)
    again = await ann.client.post(f"{run.url}/start")
    assert again.status_code == 200
    await wait_for(ann, run.id, "done")
    assert {block["state"] for block in (await blocks(ann, run)).values()} == {"cached"}


async def test_many_starts_at_once_start_once(worker, ann):
    made = await ann.client.post("/experiments", json=experiment())
    url = f"/experiments/{made.json()['id']}"
    answers = await asyncio.gather(*(ann.client.post(f"{url}/start") for _ in range(5)))
    assert sorted(answer.status_code for answer in answers) == [200, 409, 409, 409, 409]


async def test_starting_fixes_the_versions_it_uses(worker, ann, services):
    await started(ann)
    async with services.sessions() as session:
        for table in (core.algorithm, core.library, core.data_format, core.toolchain):
            frozen = (await session.scalars(select(table.c.frozen_at))).all()
            assert None not in frozen, table.name


# ---- reports ----


async def test_late_double_and_foreign_reports_change_nothing(worker, make_worker, ann):
    run = await started(ann)
    (assignment,) = (await worker.poll())["assignments"]
    other = await make_worker("w2")
    await other.register()
    end = await worker.end_of(assignment)
    assert (await other.report(end))[0].startswith("stale: ")
    assert await worker.report({"kind": "started", "attempt": assignment["attempt"]}, end) == [
        "taken",
        "taken",
    ]
    failed = {
        "kind": "finished",
        "attempt": assignment["attempt"],
        "outcome": "failed",
        "failure": {"kind": "algorithm error", "message": "late"},
    }
    answers = await worker.report(end, failed)
    assert all(answer.startswith("stale: ") for answer in answers)
    nothing = {**failed, "attempt": "01900000-0000-7000-8000-000000000000.0.1"}
    assert (await worker.report(nothing))[0].startswith("stale: ")
    assert (await blocks(ann, run))["numbers"]["state"] == "done"


async def test_two_ends_in_one_batch_are_one_end(worker, ann):
    run = await started(ann)
    (assignment,) = (await worker.poll())["assignments"]
    end = await worker.end_of(assignment)
    answers = await worker.report(end, end)
    assert answers[0] == "taken"
    assert answers[1].startswith("stale: ")
    assert (await blocks(ann, run))["numbers"]["state"] == "done"


async def test_a_failure_is_told_with_its_trace_and_skips_what_follows(worker, ann):
    run = await started(ann)
    (assignment,) = (await worker.poll())["assignments"]
    await worker.start(assignment)
    await worker.report(
        {
            "kind": "finished",
            "attempt": assignment["attempt"],
            "outcome": "failed",
            "failure": {
                "kind": "algorithm error",
                "message": "KeyError: \0 'x'",
                "trace": "Traceback …",
            },
            "exit_code": 1,
        }
    )
    found = await wait_for(ann, run.id, "failed")
    assert found["counts"] == {"failed": 1, "skipped": 2}
    failure = (await blocks(ann, run))["numbers"]["failure"]
    assert failure["kind"] == "algorithm error"
    assert failure["message"].startswith("KeyError")
    detail = (await ann.client.get(f"{run.url}/blocks/numbers")).json()
    assert detail["attempts"][0]["failure"]["trace"] == "Traceback …"


async def test_outputs_that_are_not_what_was_said_are_not_taken(worker, make_worker, ann):
    run = await started(ann)
    (assignment,) = (await worker.poll())["assignments"]
    end = await worker.end_of(assignment)
    end["outputs"][0]["sha256"] = "0" * 64
    assert await worker.report(end) == ["taken"]
    worker.running.clear()
    assert (await blocks(ann, run))["numbers"]["state"] != "done"
    other = await make_worker("w2")  # the first one rests after what it did
    await other.register()
    (second,) = (await other.poll())["assignments"]
    missing = {**(await other.end_of(second)), "outputs": []}
    assert await other.report(missing) == ["taken"]
    failure = (await blocks(ann, run))["numbers"]["failure"]
    assert failure["kind"] == "bad output"
    assert "value" in failure["message"]


async def test_results_that_cannot_be_stored_fail_the_block(worker, ann):
    run = await started(ann)
    for _ in range(2):
        await worker.run((await worker.poll())["assignments"][0])
    (analyzer,) = (await worker.poll())["assignments"]
    end = await worker.end_of(analyzer)
    end["results"] = {"total": {"type": "string", "value": "a \0 in it"}}
    assert await worker.report(end) == ["taken"]
    failure = (await blocks(ann, run))["sum"]["failure"]
    assert failure["kind"] == "bad output"
    assert "NUL" in failure["message"]


async def test_progress_is_shown_and_told(worker, ann):
    run = await started(ann)
    (assignment,) = (await worker.poll())["assignments"]
    await worker.start(assignment)
    before = (await ann.client.get(run.url)).json()["last_seq"]
    progress = {"kind": "progress", "attempt": assignment["attempt"], "message": "half"}
    assert await worker.report({**progress, "fraction": 0.5}) == ["taken"]
    params = {"after": before, "wait": 5}
    page = (await ann.client.get(f"{run.url}/events", params=params)).json()
    assert [(e["kind"], e["details"]["fraction"]) for e in page["events"]] == [("progress", 0.5)]
    assert (await blocks(ann, run))["numbers"]["progress"] == 0.5
    bad = await worker.call("reports", reports=[{**progress, "fraction": 7, "time": ""}])
    assert bad.status_code == 422


# ---- logs ----


def said(assignment, text, start, stream="stdout"):
    return {
        "kind": "log",
        "attempt": assignment["attempt"],
        "text": text,
        "start": start,
        "stream": stream,
    }


async def test_a_log_is_followed_to_its_last_line(worker, ann):
    run = await started(ann)
    (assignment,) = (await worker.poll())["assignments"]
    url = f"{run.url}/blocks/numbers/log"
    waiting = asyncio.create_task(ann.client.get(url, params={"wait": 10}))
    await asyncio.sleep(0.05)
    await worker.report(said(assignment, "one\n", 0), said(assignment, "two\n", 4, "stderr"))
    page = (await waiting).json()
    while page["next"] < 8:
        page = (await ann.client.get(url)).json()
    assert "".join(piece["text"] for piece in page["pieces"]) == "one\ntwo\n"
    assert [piece["stream"] for piece in page["pieces"]] == ["stdout", "stderr"]
    assert (page["attempt"], page["complete"]) == (assignment["attempt"], False)
    middle = (await ann.client.get(url, params={"offset": 2})).json()
    assert middle["pieces"][0] == {"stream": "stdout", "text": "e\n", "start": 2}
    follow = asyncio.create_task(ann.client.get(url, params={"offset": 8, "wait": 10}))
    await asyncio.sleep(0.05)
    lines = "".join(f"line {number}\n" for number in range(5000))
    await worker.report(said(assignment, lines, 8), await worker.end_of(assignment))
    text, offset, page = "", 8, (await follow).json()
    while True:
        text += "".join(piece["text"] for piece in page["pieces"])
        offset = page["next"]
        if page["complete"]:
            break
        page = (await ann.client.get(url, params={"offset": offset, "wait": 5})).json()
    assert text == lines


async def test_pieces_sent_twice_are_kept_once(worker, ann):
    run = await started(ann)
    (assignment,) = (await worker.poll())["assignments"]
    piece = said(assignment, "odd \0 text", 0)
    assert await worker.report(piece, piece) == ["taken", "taken"]
    page = (await ann.client.get(f"{run.url}/blocks/numbers/log")).json()
    assert [piece["text"] for piece in page["pieces"]] == ["odd \ufffd text"]


def test_a_log_that_is_too_long_says_so_once():
    def report(text, start):
        return SimpleNamespace(attempt="a", text=text, start=start, stream="stdout")

    rows = log_rows(report("x" * 15, 0), 10)
    assert (rows[0]["start"], len(rows[0]["text"])) == (0, 10)
    assert rows[1]["stream"] == "system"
    assert rows[1]["start"] == 10
    later = log_rows(report("y" * 5, 20), 10)
    assert [(row["start"], row["stream"]) for row in later] == [(10, "system")]


# ---- files ----


async def test_downloads_resume_and_are_for_the_holder_alone(worker, make_worker, ann, people):
    await started(ann)
    (dataset,) = (await worker.poll())["assignments"]
    await worker.run(dataset)
    (block,) = (await worker.poll())["assignments"]
    url = f"/worker/attempts/{block['attempt']}/inputs/0"
    whole = await worker.client.get(url, headers=worker.headers)
    assert numbers(whole.content) == {i: i for i in range(10)}
    part = await worker.client.get(url, headers={**worker.headers, "Range": "bytes=100-"})
    assert (part.status_code, part.content) == (206, whole.content[100:])
    other = await make_worker("w2")
    await other.register()
    assert (await other.client.get(url, headers=other.headers)).status_code == 404
    assert (await people.bearer(ann.token).get(url)).status_code == 401
    nothing = f"/worker/attempts/{block['attempt']}/inputs/1"
    assert (await worker.client.get(nothing, headers=worker.headers)).status_code == 404
    await worker.run(block)
    assert (await worker.client.get(url, headers=worker.headers)).status_code == 404


async def test_uploads_resume_are_checked_and_are_for_the_holder_alone(worker, make_worker, ann):
    await started(ann)
    (dataset,) = (await worker.poll())["assignments"]
    data = arrow({i: i for i in range(10)})
    file = {"path": "0.arrow", "size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    attempt = dataset["attempt"]
    url = f"/worker/attempts/{attempt}/outputs/0.arrow"
    first = await worker.upload(attempt, file, data[:100])
    assert (first.status_code, first.headers["Upload-Offset"]) == (204, "100")
    head = await worker.client.head(url, headers=worker.headers)
    assert (head.status_code, head.headers["Upload-Offset"]) == (204, "100")
    gap = await worker.upload(attempt, file, data[200:], offset=200)
    assert (gap.status_code, gap.headers["Upload-Offset"]) == (409, "100")
    assert (await worker.upload(attempt, file, data[100:], offset=100)).status_code == 204
    assert (await worker.upload(attempt, file, data + b"more")).status_code == 413
    wrong = {**file, "sha256": "0" * 64}
    assert (await worker.upload(attempt, wrong, data)).status_code == 422
    huge = {**file, "size": 2**60}
    assert (await worker.upload(attempt, huge, data)).status_code == 413
    for name in ("..%2f..%2fx", "%2e%2e", "a%00b", "x" * 300):
        bad = await worker.upload(attempt, {**file, "path": name}, data)
        assert bad.status_code in (404, 422), name
    other = await make_worker("w2")
    await other.register()
    assert (await other.upload(attempt, file, data)).status_code == 404
    assert (await other.client.head(url, headers=other.headers)).status_code == 404


async def test_an_input_that_is_gone_is_tried_again_and_fails_with_words(worker, ann, services):
    run = await started(ann)
    (dataset,) = (await worker.poll())["assignments"]
    await worker.run(dataset)
    for sha256, _, _ in list(services.cache.stored()):
        services.cache.path(sha256).unlink()
    await worker.poll(wait=1)
    async with services.sessions() as session:
        assert (await session.execute(select(core.cache_entry))).all() == []
    detail = (await ann.client.get(f"{run.url}/blocks/double")).json()
    failure = detail["attempts"][-1]["failure"]
    assert failure["kind"] == "worker error"
    assert "not in the cache" in failure["message"]


async def test_a_worker_that_drains_by_itself_says_goodbye(worker, root):
    assert (await worker.heartbeat(draining=True))["drain"] is False
    (found,) = (await root.client.get("/workers")).json()["items"]
    assert found["state"] == "offline"
    await worker.register()
    (found,) = (await root.client.get("/workers")).json()["items"]
    assert found["state"] == "online"


async def test_a_server_that_does_not_schedule_takes_no_jobs_for_lost(worker, ann, services):
    await started(ann)
    (assignment,) = (await worker.poll())["assignments"]
    attempt = assignment["attempt"]
    services.scheduler._ready.clear()
    for path, body in (
        ("heartbeat", {"running": [attempt]}),
        ("poll", {"running": [attempt], "wait": 0}),
        ("reports", {"reports": [started_report(attempt)]}),
    ):
        refused = await worker.call(path, **body)
        assert (refused.status_code, refused.json()["code"]) == (503, "scheduler"), path
        assert refused.headers["Retry-After"] == "1"
    head = f"/worker/attempts/{attempt}/outputs/0.arrow"
    assert (await worker.client.head(head, headers=worker.headers)).status_code == 503
    assert (await worker.register()).status_code == 503
    services.scheduler._ready.set()
    assert (await worker.heartbeat())["cancel"] == []


def started_report(attempt):
    return {"kind": "started", "attempt": attempt, "time": ""}


async def test_many_submissions_at_once_all_go_through(ann, services):
    async def one(number):
        made = await ann.client.post("/experiments", json=experiment(f"e{number}"))
        start = await ann.client.post(f"/experiments/{made.json()['id']}/start")
        return made.status_code, start.status_code

    answers = await asyncio.gather(*(one(number) for number in range(60)))
    assert set(answers) == {(201, 200)}
    assert services.scheduler.state()["experiments"] == 60
