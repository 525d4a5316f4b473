"""The scheduler in figures for Prometheus, read off when somebody asks.

The process that schedules tells everything; one that stands by tells only that it is not ready.
Sums and counts are of this process, since it started.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from backend.app.clock import utc_now
from backend.app.metrics import Metrics
from backend.scheduler.core.model import WorkerState
from backend.scheduler.loop import Scheduler
from backend.scheduler.ports import Bus, PublishedEvent

#: Of the loop's tally: metric (without `_total`), field, what it says.
COUNTERS = (
    ("gristmill_scheduler_events", "events", "Events that were decided about"),
    ("gristmill_scheduler_passes", "passes", "Passes over the waiting jobs"),
    ("gristmill_scheduler_pass_seconds", "pass_seconds", "Time spent deciding, in all passes"),
    ("gristmill_scheduler_commits", "commits", "Transactions"),
    ("gristmill_scheduler_commit_seconds", "commit_seconds", "Time spent committing"),
    ("gristmill_scheduler_refusals", "refusals", "Events refused: late, double, not theirs"),
    ("gristmill_scheduler_rebuilds", "rebuilds", "Restores of the farm from the database"),
    ("gristmill_leases", "leases", "Jobs given to workers"),
    ("gristmill_leases_lost", "leases_lost", "Jobs whose worker was lost"),
    ("gristmill_wait_seconds", "waited_seconds", "Waits of all jobs until they were leased"),
    ("gristmill_workers_lost", "workers_lost", "Workers that were silent for too long"),
)
#: Of the farm's overview: metric, field of a queue, what it says.
QUEUE_GAUGES = (
    ("gristmill_queue_waiting_jobs", "waiting", "Jobs that wait for a slot"),
    ("gristmill_queue_running_jobs", "running", "Jobs whose process has started"),
    ("gristmill_queue_slots", "slots_total", "Slots on the workers that are online"),
    ("gristmill_queue_slots_used", "slots_used", "Slots that are held"),
)


class SchedulerFigures(Collector):
    """Reads the scheduler at every scrape; costs what the administrator's page costs."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def describe(self) -> Iterable[Metric]:
        """Say nothing beforehand: the scheduler need not be asked to be registered."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """Yield all figures."""
        state = self._scheduler.state()
        ready = GaugeMetricFamily("gristmill_scheduler_ready", "1 where this process schedules")
        ready.add_metric((), float(state["ready"]))
        yield ready
        for name, field, text in COUNTERS:
            counter = CounterMetricFamily(name, text)
            counter.add_metric((), state["tally"][field])
            yield counter
        if "queues" in state:
            yield from self._farm(state)

    def _farm(self, state: dict[str, Any]) -> Iterator[Metric]:
        yield GaugeMetricFamily(
            "gristmill_experiments_live", "Experiments under way", state["experiments"]
        )
        for name, field, text in QUEUE_GAUGES:
            values = {queue["name"]: queue[field] for queue in state["queues"]}
            yield _gauge(name, text, "queue", values)
        oldest = self._scheduler.oldest_waiting()
        values = {queue["name"]: oldest.get(queue["id"], 0.0) for queue in state["queues"]}
        text = "How long the oldest waiting job has waited"
        yield _gauge("gristmill_queue_oldest_wait_seconds", text, "queue", values)
        counts = Counter(worker["state"] for worker in state["workers"])
        states = {str(each): counts[str(each)] for each in WorkerState}
        yield _gauge("gristmill_workers", "Workers by state", "state", states)


def _gauge(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    gauge = GaugeMetricFamily(name, text, labels=(label,))
    for value, figure in values.items():
        gauge.add_metric((value,), figure)
    return gauge


class MeasuredBus:
    """A bus that notes how late events are when they come to it."""

    def __init__(self, bus: Bus, metrics: Metrics) -> None:
        self._bus = bus
        self._metrics = metrics

    def publish(self, experiment: str, events: Sequence[PublishedEvent]) -> None:
        """Pass the events on, and note their age."""
        self._bus.publish(experiment, events)
        if events:
            age = utc_now().timestamp() - events[0].time
            self._metrics.event_lag.observe(max(0.0, age))
