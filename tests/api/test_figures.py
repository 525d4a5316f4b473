"""What /metrics tells of the scheduler while an experiment runs."""

from prometheus_client.parser import text_string_to_metric_families

from backend.scheduler.core.events import WorkerLost
from tests.lab import experiment


async def figures(client):
    """Return every sample: (name, labels…) -> value."""
    text = (await client.get("/metrics")).raise_for_status().text
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


async def started(ann, name="first"):
    made = await ann.client.post("/experiments", json=experiment(name))
    answer = await ann.client.post(f"/experiments/{made.json()['id']}/start")
    assert answer.status_code == 200, answer.text


async def test_an_experiment_from_its_start_to_its_end(client, ann, worker):
    before = await figures(client)
    assert before["gristmill_scheduler_ready",] == 1
    assert before["gristmill_queue_slots", "short"] == 4
    assert before["gristmill_queue_waiting_jobs", "short"] == 0
    assert before["gristmill_workers", "online"] == 1
    assert before["gristmill_workers", "lost"] == 0
    await started(ann)
    held = await figures(client)
    assert held["gristmill_experiments_live",] == 1
    assert held["gristmill_queue_slots_used", "short"] == 1
    assert held["gristmill_queue_running_jobs", "short"] == 0
    assert held["gristmill_leases_total",] == 1
    (dataset,) = (await worker.poll())["assignments"]
    await worker.start(dataset)
    assert (await figures(client))["gristmill_queue_running_jobs", "short"] == 1
    await worker.finish(dataset)
    for _ in range(2):
        (assignment,) = (await worker.poll())["assignments"]
        await worker.run(assignment)
    after = await figures(client)
    assert after["gristmill_leases_total",] == 3
    assert after["gristmill_leases_lost_total",] == 0
    assert after["gristmill_experiments_live",] == 0
    assert after["gristmill_scheduler_passes_total",] > before["gristmill_scheduler_passes_total",]
    assert after["gristmill_scheduler_pass_seconds_total",] > 0
    assert (
        after["gristmill_event_lag_seconds_count",] > before["gristmill_event_lag_seconds_count",]
    )


async def test_a_job_that_waits_and_a_worker_that_is_lost(client, ann, worker, services):
    await services.scheduler.handle(WorkerLost(worker=worker.registered["worker"]))
    await started(ann)
    waiting = await figures(client)
    assert waiting["gristmill_queue_waiting_jobs", "short"] == 1
    assert waiting["gristmill_queue_oldest_wait_seconds", "short"] > 0
    assert waiting["gristmill_queue_oldest_wait_seconds", "long"] == 0
    assert waiting["gristmill_workers", "lost"] == 1
    await worker.heartbeat()
    await services.scheduler.settled()
    leased = await figures(client)
    assert leased["gristmill_queue_waiting_jobs", "short"] == 0
    assert leased["gristmill_wait_seconds_total",] > 0
    await services.scheduler.handle(WorkerLost(worker=worker.registered["worker"]))
    assert (await figures(client))["gristmill_leases_lost_total",] == 1


async def test_one_that_does_not_schedule_says_so(client, services):
    await services.scheduler.stop()
    told = await figures(client)
    assert told["gristmill_scheduler_ready",] == 0
    assert not any(name.startswith("gristmill_queue") for name, *_ in told)
