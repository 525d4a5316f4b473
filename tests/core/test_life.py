"""The lives of blocks and experiments are their tables, and nothing beside them."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest

from backend.scheduler.core import blocks, experiments

PAGE = Path(__file__).parents[2] / "docs" / "life-of-a-block.md"


@pytest.mark.parametrize(("state", "move"), list(product(blocks.State, blocks.Move)))
def test_every_pair_is_in_the_table_or_refused(state: blocks.State, move: blocks.Move) -> None:
    if (state, move) in blocks.TRANSITIONS:
        assert blocks.after(state, move) is blocks.TRANSITIONS[state, move]
    else:
        with pytest.raises(blocks.IllegalMoveError, match=str(state)):
            blocks.after(state, move)


def test_final_states_have_no_exit() -> None:
    assert not {state for state, _ in blocks.TRANSITIONS} & blocks.FINAL


@pytest.mark.parametrize("state", blocks.State)
def test_every_state_can_reach_an_end(state: blocks.State) -> None:
    reached = {state}
    for _ in blocks.State:
        reached |= {b for (a, _move), b in blocks.TRANSITIONS.items() if a in reached}
    assert reached & blocks.FINAL


@pytest.mark.parametrize("state", sorted(set(blocks.State) - {blocks.State.BLOCKED}))
def test_every_state_can_be_reached(state: blocks.State) -> None:
    assert state in blocks.TRANSITIONS.values()


def test_the_drawing_has_as_many_arrows_as_the_table() -> None:
    between = [
        line for line in blocks.mermaid().splitlines() if "-->" in line and "[*]" not in line
    ]
    assert len(between) == len(blocks.TRANSITIONS)
    between = [
        line for line in experiments.mermaid().splitlines() if "-->" in line and "[*]" not in line
    ]
    assert len(between) == len(experiments.TRANSITIONS)


def test_the_drawings_in_the_docs_are_those_of_the_tables() -> None:
    text = PAGE.read_text(encoding="utf-8")
    assert f"```mermaid\n{blocks.mermaid()}\n```" in text
    assert f"```mermaid\n{experiments.mermaid()}\n```" in text


@pytest.mark.parametrize(("state", "move"), list(product(experiments.State, experiments.Move)))
def test_every_pair_of_an_experiment_is_in_the_table_or_refused(
    state: experiments.State, move: experiments.Move
) -> None:
    if (state, move) in experiments.TRANSITIONS:
        assert experiments.after(state, move) is experiments.TRANSITIONS[state, move]
    else:
        with pytest.raises(experiments.IllegalMoveError):
            experiments.after(state, move)


def test_an_experiment_can_be_deleted_from_every_state_but_deleting() -> None:
    deletable = {s for s, move in experiments.TRANSITIONS if move is experiments.Move.DELETE}
    assert deletable == set(experiments.State) - {experiments.State.DELETING}


def test_an_experiment_is_done_only_when_all_its_blocks_succeeded() -> None:
    done, cached, failed = blocks.State.DONE, blocks.State.CACHED, blocks.State.FAILED
    assert experiments.ending([done, cached]) is experiments.Move.ALL_DONE
    assert experiments.ending([done, failed]) is experiments.Move.SOME_FAILED
    assert experiments.ending([]) is experiments.Move.ALL_DONE
