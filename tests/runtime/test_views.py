"""Datasets: views are asked for all they have, and cut into data units by their columns."""

from __future__ import annotations

from collections import namedtuple
from pathlib import Path

import pytest

from gristmill.runtime.errors import AlgorithmError
from gristmill.runtime.views import units
from tests.runtime.jobs import JobFolder

DOUBLE = """
    from collections import namedtuple
    from beat.backend.python.database import View as Base

    class View(Base):
        def index(self, root_folder, parameters):
            Entry = namedtuple("Entry", ["a", "b", "sum"])
            return [Entry(i // 3, i, i + i // 3) for i in range(parameters["rows"])]

        def get(self, output, index):
            return {"value": getattr(self.objs[index], output)}
"""


def test_outputs_are_written_in_units_of_equal_values(tmp_path: Path) -> None:
    ran = JobFolder(
        tmp_path / "j", DOUBLE, kind="dataset", outputs=("a", "b"), parameters={"rows": 7}
    ).run()
    assert ran.status == 0, ran.stderr
    assert [row[:2] for row in ran.rows("a")] == [(0, 2), (3, 5), (6, 6)]
    assert [row[2]["value"] for row in ran.rows("a")] == [0, 1, 2]
    assert [row[:2] for row in ran.rows("b")] == [(i, i) for i in range(7)]
    assert ran.result is not None
    assert {o["last"] for o in ran.result["outputs"].values()} == {6}
    assert ran.messages[-1]["kind"] == "progress"


def test_a_view_reads_the_databases_files_and_maps_its_outputs(tmp_path: Path) -> None:
    source = """
        import os
        from collections import namedtuple
        class View:
            def setup(self, root_folder, outputs, parameters, *others):
                self.root = root_folder
            def index(self, root_folder, parameters):
                Row = namedtuple("Row", ["line"])
                with open(os.path.join(root_folder, "numbers.txt")) as lines:
                    return [Row(int(line)) for line in lines]
            def get_output_mapping(self, output):
                return "line"
            def get(self, output, index):
                return {"value": self.objs[index].line * 2}
    """
    (tmp_path / "j/data").mkdir(parents=True)
    (tmp_path / "j/data/numbers.txt").write_text("4\n4\n5\n")
    ran = JobFolder(tmp_path / "j", source, kind="dataset", outputs=("out",)).run()
    assert ran.status == 0, ran.stderr
    assert ran.rows("out") == [(0, 1, {"value": 8}), (2, 2, {"value": 10})]


def test_a_view_that_fails_is_the_users_failure(tmp_path: Path) -> None:
    source = """
        class View:
            def index(self, root_folder, parameters):
                return open(root_folder + "/missing.txt")
    """
    ran = JobFolder(tmp_path / "j", source, kind="dataset").run()
    assert ran.status == 1
    assert ran.error.startswith("FileNotFoundError")
    assert ran.result is not None
    assert "algorithm/view.py" in ran.result["error"]["trace"]


def test_units_are_cut_where_a_value_changes() -> None:
    row = namedtuple("row", ["c"])
    assert list(units([row(1), row(1), row(2), row(1)], "c")) == [(0, 1), (2, 2), (3, 3)]
    assert list(units([], "c")) == []
    with pytest.raises(AlgorithmError, match="no column 'd'; it has c"):
        list(units([row(1)], "d"))
