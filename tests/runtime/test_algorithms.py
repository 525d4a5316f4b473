"""Algorithms of every interface run as BEAT runs them. Each test is a job folder and its end."""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.runtime.jobs import JobFolder, integers

SEQUENTIAL = {"api_version": 2, "type": "sequential"}
AUTONOMOUS = {"api_version": 2, "type": "autonomous"}

COPY = """
    class Algorithm:
        def process(self, inputs, outputs):
            outputs["out"].write({"value": inputs["x"].data.value})
            return True
"""


def test_a_legacy_algorithm_sees_every_data_unit(tmp_path: Path) -> None:
    ran = JobFolder(tmp_path / "j", COPY, inputs={"x": integers([3, 1, 2])}).run()
    assert ran.status == 0, ran.stderr
    assert ran.rows("out") == integers([3, 1, 2])
    assert ran.result is not None
    assert ran.result["outputs"] == {
        "out": {"file": "outputs/out.arrow", "rows": 3, "first": 0, "last": 2}
    }
    assert ran.result["statistics"]["units"] == 3
    assert (
        ran.result["statistics"]["bytes_written"]
        == (ran.folder / "outputs/out.arrow").stat().st_size
    )
    assert ran.messages[0] == {"kind": "started"}
    assert ran.messages[1]["kind"] == "progress"


def test_the_same_job_writes_the_same_bytes(tmp_path: Path) -> None:
    inputs = {"x": integers(list(range(500)))}
    written = []
    for name, parts in (("a", 1), ("b", 3)):
        ran = JobFolder(tmp_path / name, COPY, inputs=inputs, parts=parts).run()
        written.append((ran.folder / "outputs/out.arrow").read_bytes())
    assert written[0] == written[1]


def test_inputs_of_different_granularity_advance_together(tmp_path: Path) -> None:
    source = """
        class Algorithm:
            def process(self, inputs, outputs):
                fine, coarse, group = inputs["fine"], inputs["coarse"], inputs.main_group
                print(fine.data.value, coarse.data.value, fine.isDataUnitDone(),
                      coarse.isDataUnitDone(), coarse.hasDataChanged(), coarse.data_index,
                      coarse.data_index_end, group.first_data_index, group.last_data_index,
                      inputs.hasMoreData())
                if coarse.isDataUnitDone():
                    outputs["out"].write({"value": coarse.data.value})
                return True
    """
    inputs = {"fine": integers([1, 2, 3, 4]), "coarse": integers([10, 20], width=2)}
    ran = JobFolder(tmp_path / "j", source, inputs=inputs).run()
    assert ran.status == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "1 10 True False True 0 1 0 0 True",
        "2 10 True True False 0 1 1 1 True",
        "3 20 True False True 2 3 2 2 True",
        "4 20 True True False 2 3 3 3 False",
    ]
    assert ran.rows("out") == integers([10, 20], width=2)


def test_units_that_overlap_crosswise_meet_at_every_cut(tmp_path: Path) -> None:
    source = """
        class Algorithm:
            def process(self, inputs, outputs):
                print(inputs["x"].data.value, inputs["y"].data.value)
                outputs["out"].write({"value": 0})
                return True
    """
    inputs = {"x": integers([1, 2, 3], width=2), "y": integers([7, 8], width=3)}
    ran = JobFolder(tmp_path / "j", source, inputs=inputs).run()
    assert ran.stdout.split("\n")[:-1] == ["1 7", "2 7", "2 8", "3 8"]
    assert [row[:2] for row in ran.rows("out")] == [(0, 1), (2, 2), (3, 3), (4, 5)]


def test_a_legacy_algorithm_advances_its_other_group_itself(tmp_path: Path) -> None:
    source = """
        class Algorithm:
            def setup(self, parameters):
                self.total = None
                return True
            def process(self, inputs, outputs):
                if self.total is None:
                    self.total = 0
                    other = inputs.groupOf("t")
                    while other.hasMoreData():
                        other.next()
                        self.total += other["t"].data.value
                outputs["out"].write({"value": inputs["x"].data.value + self.total})
                return True
    """
    job = JobFolder(
        tmp_path / "j", source, inputs={"x": integers([1, 2])}, others={"t": integers([10, 20, 30])}
    )
    assert [row[2]["value"] for row in job.run().rows("out")] == [61, 62]


def test_a_sequential_algorithm_reads_other_groups_through_data_loaders(tmp_path: Path) -> None:
    source = """
        class Algorithm:
            def setup(self, parameters):
                self.offset = parameters["offset"]
                return True
            def prepare(self, data_loaders):
                loader = data_loaders.loaderOf("t")
                self.total = sum(data["t"].value for data, start, end in loader)
                assert loader[99] == (None, None, None)
                return True
            def process(self, inputs, data_loaders, outputs):
                data, start, end = data_loaders.loaderOf("t")[1]
                assert (data["t"].value, start, end) == (20, 1, 1)
                assert len(data_loaders) == 1
                outputs["out"].write({"value": inputs["x"].data.value + self.total + self.offset})
                return True
    """
    declaration = {**SEQUENTIAL, "parameters": {"offset": {"type": "int32", "default": 100}}}
    ran = JobFolder(
        tmp_path / "j",
        source,
        declaration=declaration,
        inputs={"x": integers([1, 2])},
        others={"t": integers([10, 20])},
    ).run()
    assert ran.status == 0, ran.stderr
    assert [row[2]["value"] for row in ran.rows("out")] == [131, 132]


def test_an_autonomous_algorithm_goes_through_the_data_itself(tmp_path: Path) -> None:
    source = """
        class Algorithm:
            def process(self, data_loaders, outputs):
                loader = data_loaders.main_loader
                assert loader.count() == 4 and loader.count("coarse") == 2
                for i in range(loader.count("coarse")):
                    view = loader.view("coarse", i)
                    total = sum(data["fine"].value for data, _, _ in view)
                    outputs["out"].write({"value": total}, view.data_index_end)
                return True
    """
    inputs = {"fine": integers([1, 2, 3, 4]), "coarse": integers([10, 20], width=2)}
    ran = JobFolder(tmp_path / "j", source, declaration=AUTONOMOUS, inputs=inputs).run()
    assert ran.status == 0, ran.stderr
    assert ran.rows("out") == integers([3, 7], width=2)


ANALYZER = {
    "results": {
        "accuracy": {"type": "float32", "display": True},
        "count": {"type": "int32"},
        "plot": {"type": "plot/scatter/1"},
    }
}


@pytest.mark.parametrize(
    ("kind", "signature"),
    [
        ("legacy", "inputs, output"),
        ("sequential", "inputs, data_loaders, output"),
        ("autonomous", "data_loaders, output"),
    ],
)
def test_an_analyzer_writes_its_results_once(tmp_path: Path, kind: str, signature: str) -> None:
    done = "True" if kind == "autonomous" else "not inputs.hasMoreData()"
    source = f"""
        import numpy
        class Algorithm:
            def process(self, {signature}):
                if {done}:
                    output.write({{"accuracy": numpy.float64(0.1), "count": 3,
                                  "plot": {{"data": numpy.array([1.0, numpy.nan])}}}})
                return True
    """
    ran = JobFolder(
        tmp_path / "j",
        source,
        kind="analyzer",
        declaration={**ANALYZER, "api_version": 1 if kind == "legacy" else 2, "type": kind},
        inputs={"x": integers([1, 2])},
        outputs=(),
    ).run()
    assert ran.status == 0, ran.stderr
    assert ran.result is not None
    assert ran.result["results"] == {
        "accuracy": {"type": "float32", "value": 0.1, "display": True},
        "count": {"type": "int32", "value": 3, "display": False},
        "plot": {"type": "plot/scatter/1", "value": {"data": [1.0, "NaN"]}, "display": False},
    }


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("return True", "ended without writing its results"),
        ("output.write({'n': 1}); output.write({'n': 1}); return True", "written already"),
        ("output.write({'n': 2**40}); return True", "outside the range of int32"),
        ("output.write({'n': 1.5}); return True", "expected int32, got float64"),
        ("output.write({}); return True", "the field 'n' is missing"),
        ("output.write({'n': 1, 'm': 1}); return True", "no field 'm'"),
    ],
)
def test_wrong_results_are_refused(tmp_path: Path, body: str, says: str) -> None:
    ran = JobFolder(
        tmp_path / "j",
        f"class Algorithm:\n    def process(self, inputs, output):\n        {body}\n",
        kind="analyzer",
        declaration={"results": {"n": {"type": "int32"}}},
        inputs={"x": integers([1])},
        outputs=(),
    ).run()
    assert ran.status == 1
    assert says in ran.error


def test_a_range_is_processed_alone_and_the_parts_join_without_a_seam(tmp_path: Path) -> None:
    for name, (first, last) in (("a", (0, 3)), ("b", (4, 9))):
        job = JobFolder(tmp_path / name, COPY, inputs={"x": integers(list(range(10)))}, parts=3)
        job.range = (first, last)
        ran = job.run()
        assert ran.rows("out") == integers(list(range(first, last + 1)), first=first)
        assert ran.result is not None
        told = ran.result["outputs"]["out"]
        assert (told["first"], told["last"]) == (first, last)


def test_other_groups_are_whole_even_when_a_range_is_given(tmp_path: Path) -> None:
    source = """
        class Algorithm:
            def process(self, inputs, data_loaders, outputs):
                outputs["out"].write({"value": data_loaders[0].count()})
                return True
    """
    ran = JobFolder(
        tmp_path / "j",
        source,
        declaration=SEQUENTIAL,
        inputs={"x": integers([1, 2, 3])},
        others={"t": integers([1] * 7)},
        range=(1, 1),
    ).run()
    assert ran.rows("out") == [(1, 1, {"value": 7})]


def processing(line: str) -> str:
    return f"class Algorithm:\n    def process(self, i, o):\n        {line}\n"


WRONG = {
    processing("return True"): "Missing data on the following output(s): out",
    processing("o['out'].write({'value': 1})"): "process() returned None",
    processing("i['x'].next()"): "the platform drives the group",
    processing("o['y']"): "no output 'y'; this algorithm has out",
    processing("o['out'].write({'value': 1}, 5)"): "end_data_index 5 is past 0",
    processing("o['out'].write({'value': 'a'})"): "output 'out'.value: expected int32, got str",
    processing("import sys; sys.exit(0)"): "called sys.exit(0)",
    processing("raise KeyError('no such thing')"): "KeyError: 'no such thing'",
    processing("raise ValueError('\\ud800')"): "\\ud800",
    processing("raise MemoryError"): "MemoryError",
    processing("return self.process(i, o)"): "RecursionError",
    "class Algorithm:\n    def setup(self, p):\n        return False": "setup() returned False",
    "x = 1": "algorithm.py defines no class 'Algorithm'",
    "def broken(:": "SyntaxError",
    "import nothing_of_that_name": "No module named 'nothing_of_that_name'",
}


@pytest.mark.parametrize(("source", "says"), WRONG.items(), ids=list(WRONG.values()))
def test_what_user_code_does_wrong_is_told_and_ends_with_status_1(
    tmp_path: Path, source: str, says: str
) -> None:
    ran = JobFolder(tmp_path / "j", source, inputs={"x": integers([1])}).run()
    assert ran.status == 1, ran.stderr
    assert says in ran.error
    assert ran.result is not None
    assert ran.result["status"] == "failed"
    assert "gristmill/runtime/__main__" not in ran.result["error"]["trace"]


def test_the_trace_starts_in_the_users_code_and_names_its_files(tmp_path: Path) -> None:
    source = """
        import helper
        class Algorithm:
            def process(self, inputs, outputs):
                return helper.fail()
    """
    ran = JobFolder(
        tmp_path / "j",
        source,
        inputs={"x": integers([1])},
        libraries={"u/h/1": {"files": {"library.py": "def fail():\n    return 1 / 0\n"}}},
        uses={"helper": "u/h/1"},
    ).run()
    assert ran.result is not None
    lines = ran.result["error"]["trace"].splitlines()
    assert lines[0].startswith("Traceback")
    assert lines[1] == '  File "algorithm/algorithm.py", line 5, in process'
    assert any('"libraries/u/h/1/library.py", line 2, in fail' in line for line in lines)
    assert lines[-1] == "ZeroDivisionError: division by zero"
    assert str(tmp_path) not in ran.result["error"]["trace"]


def test_libraries_see_their_own_aliases_only(tmp_path: Path) -> None:
    source = """
        import common, first.extra as extra
        from first import ask
        from second import tools
        class Algorithm:
            def process(self, inputs, outputs):
                print(common.NAME, ask(), extra.NAME, tools.where())
                try:
                    import hidden
                except ModuleNotFoundError:
                    print("hidden is hidden")
                outputs["out"].write({"value": 0})
                return True
    """
    first = """
        from . import extra
        def ask():
            import common
            return common.NAME
    """
    libraries = {
        "u/common/1": {"files": {"library.py": "NAME = 'common one'"}},
        "u/common/2": {"files": {"library.py": "NAME = 'common two'"}},
        "u/first/1": {
            "files": {"__init__.py": first, "extra.py": "NAME = 'extra'"},
            "uses": {"common": "u/common/2", "hidden": "u/common/1"},
        },
        "u/second/1": {
            "files": {
                "tools.py": "import common\ndef where():\n    return common.NAME",
                "other.py": "",
            },
            "uses": {"common": "u/common/1"},
        },
    }
    ran = JobFolder(
        tmp_path / "j",
        source,
        inputs={"x": integers([1])},
        libraries=libraries,
        uses={"common": "u/common/1", "first": "u/first/1", "second": "u/second/1"},
    ).run()
    assert ran.status == 0, ran.stderr
    assert ran.stdout.splitlines() == [
        "common one common two extra common one",
        "hidden is hidden",
    ]


def test_the_order_in_which_names_are_used_does_not_matter(tmp_path: Path) -> None:
    names = ["a", "b", "c"]
    libraries = {
        f"u/{n}/1": {"files": {"library.py": f"{'import z' if n != 'c' else ''}\nNAME='{n}'"},
                     "uses": {"z": "u/c/1"} if n != "c" else {}}
        for n in names
    }  # fmt: skip
    for order in itertools.permutations(names):
        source = (
            f"import {', '.join(order)}\n"
            "class Algorithm:\n"
            "    def process(self, inputs, outputs):\n"
            "        outputs['out'].write({'value': len(a.z.NAME + b.z.NAME)})\n"
            "        return True\n"
        )
        ran = JobFolder(
            tmp_path / "".join(order),
            source,
            inputs={"x": integers([1])},
            libraries={ref: libraries[ref] for ref in (f"u/{n}/1" for n in order)},
            uses={n: f"u/{n}/1" for n in names},
        ).run()
        assert ran.rows("out") == integers([2]), ran.stderr


def test_user_code_reports_its_progress(tmp_path: Path) -> None:
    source = """
        from gristmill.runtime import progress
        class Algorithm:
            def process(self, data_loaders, outputs):
                progress(0.25, "fitting")
                progress(7, "past the end")
                outputs["out"].write({"value": 1})
                return True
    """
    ran = JobFolder(
        tmp_path / "j", source, declaration=AUTONOMOUS, inputs={"x": integers([1])}
    ).run()
    assert ran.messages[1:3] == [
        {"kind": "progress", "fraction": 0.25, "message": "fitting"},
        {"kind": "progress", "fraction": 1.0, "message": "past the end"},
    ]


def test_an_output_that_nobody_reads_may_be_written(tmp_path: Path) -> None:
    source = """
        class Algorithm:
            def process(self, inputs, outputs):
                assert outputs["out"].isConnected() and not outputs["spare"].isConnected()
                outputs["out"].write({"value": 1})
                outputs["spare"].write({"value": 1})
                return True
    """
    port = {"type": "user/integer/1"}
    declaration = {"groups": [{"inputs": {"x": port}, "outputs": {"out": port, "spare": port}}]}
    ran = JobFolder(
        tmp_path / "j", source, declaration=declaration, inputs={"x": integers([1])}
    ).run()
    assert ran.status == 0, ran.stderr
    assert not (ran.folder / "outputs/spare.arrow").exists()


def test_threads_that_user_code_leaves_behind_do_not_keep_the_job(tmp_path: Path) -> None:
    source = """
        import threading
        class Algorithm:
            def process(self, inputs, outputs):
                threading.Thread(target=threading.Event().wait).start()
                outputs["out"].write({"value": 1})
                return True
    """
    assert JobFolder(tmp_path / "j", source, inputs={"x": integers([1])}).run().status == 0


def test_no_data_at_all_is_no_failure(tmp_path: Path) -> None:
    ran = JobFolder(tmp_path / "j", COPY, inputs={"x": []}).run()
    assert ran.status == 0, ran.stderr
    assert ran.rows("out") == []


def change(job: dict[str, Any], **new: Any) -> dict[str, Any]:
    return {**job, **new}


@pytest.mark.parametrize(
    ("new", "says"),
    [
        ({"schema": 2}, "not of schema 1"),
        ({"kind": "loop"}, "not one of block, analyzer, dataset"),
        ({"inputs": []}, "no input is synchronised"),
        ({"entry": {"file": "algorithm/none.py", "name": "A"}}, "none.py is not there"),
        ({"entry": {}}, "lacks 'file'"),
        ({"uses": {"a": "u/a/1"}}, "uses 'u/a/1' as 'a'"),
        ({"formats": {}}, "no data format 'user/integer/1'"),
        ({"range": [1, 9]}, "cuts through"),
        ({"range": "x"}, "malformed"),
        ({"inputs": 3}, "malformed"),
        ({"declaration": {"type": "sequential_loop_evaluator"}}, "are not known here"),
        ({"outputs": [{"name": "../x", "format": "user/integer/1"}]}, "not a plain name"),
    ],
)
def test_a_wrong_call_ends_with_status_2_and_a_sentence(
    tmp_path: Path, new: dict[str, Any], says: str
) -> None:
    job = JobFolder(tmp_path / "j", COPY, inputs={"x": integers([1, 2], width=2)}).write()
    (tmp_path / "j/job.json").write_text(json.dumps(change(job, **new)))
    ended = subprocess.run(
        [sys.executable, "-m", "gristmill.runtime", "run", str(tmp_path / "j")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 2, ended.stderr
    assert says in ended.stderr
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize("argv", [[], ["run"], ["fly", "x"], ["run", "/nowhere/at/all"]])
def test_calls_that_make_no_sense(argv: list[str]) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "gristmill.runtime", *argv], capture_output=True, check=False
    )
    assert ended.returncode == 2
    assert b"Traceback" not in ended.stderr


def test_describe_tells_name_version_os_and_packages() -> None:
    out = subprocess.run(
        [sys.executable, "-m", "gristmill.runtime", "describe"], capture_output=True, check=True
    ).stdout
    told = json.loads(out)
    assert told["packages"]["numpy"]
    assert told["packages"]["python"].startswith("3.")
    assert {"name", "version", "os", "paths"} <= told.keys()
    assert sys.prefix in told["paths"]


def test_standby_waits_for_its_line_and_gives_up_at_the_end_of_input(tmp_path: Path) -> None:
    argv = [sys.executable, "-m", "gristmill.runtime", "standby", str(tmp_path / "j")]
    waiting = subprocess.Popen(argv, stdin=subprocess.PIPE, text=True)
    JobFolder(tmp_path / "j", COPY, inputs={"x": integers([5])}).write()
    waiting.communicate("run\n")
    assert waiting.returncode == 0
    assert json.loads((tmp_path / "j/result.json").read_text())["status"] == "done"
    assert subprocess.run(argv, stdin=subprocess.DEVNULL, check=False).returncode == 0
