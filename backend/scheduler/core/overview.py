"""The farm in figures, for the administrator's page: plain JSON."""

from __future__ import annotations

from collections import Counter
from typing import Any

from backend.scheduler.core.ledgers import Account, Site
from backend.scheduler.core.live import Live
from backend.scheduler.core.model import Queue
from backend.scheduler.core.rights import total_slots


def overview(live: Live) -> dict[str, Any]:
    """Return policy, totals, queues, users and workers."""
    waiting = _waiting(live)
    return {
        "policy": live.policy_name,
        "policies": sorted(live.policies),
        "experiments": len(live.experiments),
        "waiting": sum(waiting.values()),
        "running": len(live.open),
        "queues": [_queue(live, queue, waiting) for queue in live.queues.values()],
        "users": [
            _account(account, waiting)
            for account in live.accounts.values()
            if account.open or waiting[account.queue, account.user]
        ],
        "workers": [_worker(site) for site in live.sites.values()],
    }


def _waiting(live: Live) -> Counter[tuple[str, str]]:
    """Count the waiting jobs by (queue, user)."""
    counts: Counter[tuple[str, str]] = Counter()
    for line in live.lines.values():
        for user, lane in line.lanes.items():
            counts[line.queue.id, user] += len(lane.waiting)
    return counts


def _queue(live: Live, queue: Queue, waiting: Counter[tuple[str, str]]) -> dict[str, Any]:
    workers = [site.worker for site in live.online()]
    return {
        "id": queue.id,
        "name": queue.name,
        "slots_total": total_slots(queue, workers),
        "slots_used": sum(site.used(queue.id) for site in live.sites.values()),
        "waiting": sum(n for (name, _), n in waiting.items() if name == queue.id),
        "running": sum(
            lease.started
            for a in live.accounts.values()
            if a.queue == queue.id
            for lease in a.open.values()
        ),
    }


def _account(account: Account, waiting: Counter[tuple[str, str]]) -> dict[str, Any]:
    return {
        "user": account.user,
        "queue": account.queue,
        "slots": account.right.slots,
        "priority": account.right.priority,
        "held": account.held,
        "waiting": waiting[account.queue, account.user],
    }


def _worker(site: Site) -> dict[str, Any]:
    worker = site.worker
    return {
        "id": worker.id,
        "name": worker.name,
        "state": str(worker.state),
        "cores": worker.cores,
        "cores_free": site.free_cores(),
        "memory_mb": worker.memory_mb,
        "memory_free_mb": site.free_memory(),
        "running": sorted(site.open),
        "resting": sorted(" ".join(c) if c else "all" for c in site.rests),
    }
