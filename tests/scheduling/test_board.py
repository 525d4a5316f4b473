"""What workers are told: only what is committed, and only who is concerned."""

from __future__ import annotations

import asyncio

from backend.scheduler.board import Board
from backend.scheduler.core import policies
from backend.scheduler.core.instructions import Close, Lease, Revoke
from backend.scheduler.loop import discover_policies


def lease(attempt: str, worker: str) -> Lease:
    block, index, number = attempt.split(".")
    return Lease(
        attempt=attempt,
        block=block,
        experiment="e",
        index=int(index),
        number=int(number),
        range=None,
        worker=worker,
    )


def test_a_lease_is_told_until_the_worker_has_it() -> None:
    board, a = Board(), lease("a.0.1", "W1")
    board.apply([a])
    assert board.work("W1", ()).leases == (a,)
    assert board.work("W1", ()).leases == (a,), "the first answer may have been lost"
    assert not board.work("W1", ("a.0.1",))
    assert not board.work("W2", ())


def test_a_worker_is_told_to_kill_what_is_revoked_and_what_is_not_its_own() -> None:
    board = Board()
    board.apply([lease("a.0.1", "W1"), lease("b.0.1", "W2"), Revoke(attempt="a.0.1", worker="W1")])
    assert board.cancels("W1", ("a.0.1", "b.0.1", "c.0.1")) == ("a.0.1", "b.0.1", "c.0.1")
    assert board.work("W1", ()).leases == (), "what is revoked is not begun"
    assert board.never_begun("W1", ()) == ("a.0.1",)
    assert board.never_begun("W1", ("a.0.1",)) == ()


def test_what_is_closed_is_nobodys() -> None:
    board = Board()
    board.apply([lease("a.0.1", "W1"), Close(attempt="a.0.1", outcome=None)])
    assert not board.holds("a.0.1", "W1")
    assert board.leases("W1") == ()


async def test_only_the_worker_concerned_wakes() -> None:
    board = Board()
    first = asyncio.create_task(board.wait("W1", 60))
    second = asyncio.create_task(board.wait("W2", 60))
    await asyncio.sleep(0)
    board.apply([lease("a.0.1", "W1")])
    await first
    assert not second.done()
    second.cancel()


async def test_a_wait_ends_with_its_time() -> None:
    await Board().wait("W1", 0)


def test_after_a_restore_everything_is_as_the_farm_holds_it() -> None:
    board = Board()
    board.apply([lease("a.0.1", "W1")])
    board.reset([lease("b.0.1", "W2")], ["b.0.1"])
    assert board.leases("W1") == ()
    assert board.cancels("W2", ("b.0.1",)) == ("b.0.1",)


def test_the_built_in_policies_are_there_and_cannot_be_replaced() -> None:
    assert policies.BUILT_IN.items() <= discover_policies().items()
