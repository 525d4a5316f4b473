"""Prometheus metrics: one registry an application, route templates as labels, never raw paths."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
)

LAG_PERIOD = 0.1  #: seconds between looks at the event loop


class Metrics:
    """What the application counts. Others add their own to `registry`."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        self.requests = Counter(
            "gristmill_http_requests",
            "Answers by route template and status",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self.seconds = Histogram(
            "gristmill_http_request_seconds",
            "Time to the end of an answer",
            ["route"],
            registry=self.registry,
        )
        self.lag = Histogram(
            "gristmill_loop_lag_seconds",
            "How late the event loop woke up",
            buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5),
            registry=self.registry,
        )
        self.event_lag = Histogram(
            "gristmill_event_lag_seconds",
            "From a decision to its events' hand-over to those who follow here, commit included",
            buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5),
            registry=self.registry,
        )
        self.last_lag = Gauge(
            "gristmill_loop_last_lag_seconds",
            "The last lag of the event loop",
            registry=self.registry,
        )

    async def watch_loop(self) -> None:
        """Measure for ever how late the loop wakes us."""
        while True:
            before = time.monotonic()
            await asyncio.sleep(LAG_PERIOD)
            lag = max(0.0, time.monotonic() - before - LAG_PERIOD)
            self.lag.observe(lag)
            self.last_lag.set(lag)

    @contextlib.asynccontextmanager
    async def watching(self) -> AsyncIterator[None]:
        """Measure the loop's lag meanwhile."""
        task = asyncio.create_task(self.watch_loop(), name="loop lag")
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
