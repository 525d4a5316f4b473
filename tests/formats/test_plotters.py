"""Plotters and their parameters."""

from __future__ import annotations

from gristmill.formats import check_plotter, check_plotter_parameters

PLOTTER = {
    "language": "python",
    "dataformat": "plot/scatter/1",
    "parameters": {"title": {"type": "string", "default": ""}, "grid": {"type": "bool"}},
}


def test_a_plotter_and_its_parameters() -> None:
    known = {"ann/scatter/1": PLOTTER}
    given = {"plotter": "ann/scatter/1", "data": {"title": "Scores"}}
    assert check_plotter(PLOTTER) == []
    assert check_plotter_parameters(given, known) == []
    wrong = {"plotter": "ann/scatter/1", "data": {"colour": 1}}
    assert [p.pointer for p in check_plotter_parameters(wrong, known)] == ["/data/colour"]
    assert [p.pointer for p in check_plotter_parameters(given, {})] == ["/plotter"]


def test_a_plotter_draws_a_plot() -> None:
    assert [p.pointer for p in check_plotter(PLOTTER | {"dataformat": "ann/x/1"})] == [
        "/dataformat"
    ]
