"""Frames of the WebSocket as text, and events as they go over the wire. Pure."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from backend.scheduler.core import experiments
from backend.scheduler.ports import PublishedEvent

SUBPROTOCOL = "gristmill.v1"


def dump(frame: dict[str, Any]) -> str:
    """Return a frame as it is sent."""
    return json.dumps(frame, separators=(",", ":"), ensure_ascii=False)


def wire_event(event: PublishedEvent) -> dict[str, Any]:
    """Return an event as the socket and the long poll give it."""
    time = datetime.fromtimestamp(event.time, UTC).isoformat().replace("+00:00", "Z")
    return {
        "seq": event.seq,
        "time": time,
        "kind": event.kind,
        "block": event.block,
        "details": event.details,
    }


def events(experiment: str, batch: Sequence[PublishedEvent]) -> str:
    """Return the frame of some consecutive events."""
    found = [wire_event(event) for event in batch]
    return dump({"type": "events", "experiment": experiment, "events": found})


def resync(experiment: str | None) -> str:
    """Return the frame that asks for a new snapshot (None: of the list) and subscription."""
    return dump({"type": "resync", "experiment": experiment})


def end(experiment: str, last_seq: int) -> str:
    """Return the frame that says: this run is over, nothing is missing."""
    return dump({"type": "end", "experiment": experiment, "last_seq": last_seq})


def unsubscribed(experiment: str, reason: str) -> str:
    """Return the frame that says: no more of this, and why."""
    return dump({"type": "unsubscribed", "experiment": experiment, "reason": reason})


def error(detail: str) -> str:
    """Return the frame that answers a message which was not understood."""
    return dump({"type": "error", "detail": detail})


def summary(found: dict[str, Any]) -> str:
    """Return the frame of the list: an experiment as it stands now."""
    return dump({"type": "experiment", "experiment": found})


def deleted(experiment: str) -> str:
    """Return the frame of the list that says: this experiment is no more."""
    return dump({"type": "deleted", "experiment": experiment})


def is_final(event: PublishedEvent) -> bool | None:
    """Whether the experiment rests after this event; None if the event says nothing of it."""
    if event.kind != "experiment":
        return None
    return event.details.get("state") in {state.value for state in experiments.FINAL}
