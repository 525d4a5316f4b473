"""Folders in BEAT's layout, read as whole and named in every refusal."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from gristmill.formats import check_database, data_sets
from gristmill.prefixes import BadPrefix, in_order, owned_by, read_prefix
from tests.formats import samples


def write(folder: Path, path: str, content: Any) -> Path:
    file = folder / path
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    return file


def test_code_and_notes_lie_beside_a_declaration(tmp_path: Path) -> None:
    write(tmp_path, "algorithms/ann/adder/2.json", samples.adder())
    write(tmp_path, "algorithms/ann/adder/2.py", "class Algorithm: ...\n")
    write(tmp_path, "algorithms/ann/adder/2.rst", "Adds.\n")
    [one] = read_prefix(tmp_path).declared
    assert (one.ref, one.kind) == ("ann/adder/2", "algorithms")
    assert (one.source, one.documentation) == ("class Algorithm: ...\n", "Adds.\n")


def test_a_library_is_a_file_or_a_folder(tmp_path: Path) -> None:
    for name in ("one", "many"):
        write(tmp_path, f"libraries/ann/{name}/1.json", {"language": "python"})
    write(tmp_path, "libraries/ann/one/1.py", "x = 1\n")
    write(tmp_path, "libraries/ann/many/1/__init__.py", "")
    write(tmp_path, "libraries/ann/many/1/inner/deep.py", "y = 2\n")
    write(tmp_path, "libraries/ann/many/1/__pycache__/old.py", "")
    found = read_prefix(tmp_path).of("libraries")
    assert found["ann/one/1"].files == {"library.py": "x = 1\n"}
    assert found["ann/many/1"].files == {"__init__.py": "", "inner/deep.py": "y = 2\n"}


def test_protocol_templates_are_put_into_their_databases(tmp_path: Path) -> None:
    write(tmp_path, "databases/numbers/2.json", samples.database_2())
    write(tmp_path, "protocoltemplates/simple/1.json", samples.template())
    [one] = read_prefix(tmp_path).declared
    assert check_database(one.declaration) == []
    assert set(data_sets(one.declaration)["small.1"]) == {"train", "test"}


def test_a_missing_protocol_template_is_told(tmp_path: Path) -> None:
    write(tmp_path, "databases/numbers/2.json", samples.database_2())
    with pytest.raises(BadPrefix, match=r"2\.json: There is no protocol template simple/1"):
        read_prefix(tmp_path)


@pytest.mark.parametrize(
    ("path", "content", "told"),
    [
        ("toolchains/ann/x/1.json", "{", "not JSON"),
        ("toolchains/ann/x/1.json", "[]", "no JSON object"),
        ("toolchains/ann/x/1.json", '{"a": 1, "a": 2}', "stands twice"),
        ("toolchains/ann/x y/1.json", "{}", "owner/name/version"),
        ("toolchains/ann/x/one.json", "{}", "owner/name/version"),
        ("databases/x/0.json", "{}", "name/version"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path: Path, path: str, content: str, told: str) -> None:
    file = write(tmp_path, path, content)
    with pytest.raises(BadPrefix) as caught:
        read_prefix(tmp_path)
    assert str(file) in str(caught.value)
    assert told in str(caught.value)


def test_what_is_no_prefix_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadPrefix, match="holds none of the folders"):
        read_prefix(tmp_path)
    with pytest.raises(BadPrefix, match="is not a folder"):
        read_prefix(tmp_path / "nothing")


def test_a_file_that_is_no_text_is_told(tmp_path: Path) -> None:
    write(tmp_path, "algorithms/ann/adder/1.json", samples.adder())
    (tmp_path / "algorithms/ann/adder/1.py").write_bytes(b"\xff\xfe")
    with pytest.raises(BadPrefix, match=r"1\.py is not UTF-8"):
        read_prefix(tmp_path)


def test_references_follow_the_new_owner_and_others_stay(tmp_path: Path) -> None:
    write(tmp_path, "algorithms/user/adder/1.json", samples.adder())
    write(tmp_path, "libraries/user/tools/1.json", {"language": "python"})
    declaration = samples.adder() | {"uses": {"tools": "user/tools/1", "far": "bob/tools/1"}}
    write(tmp_path, "algorithms/user/adder/1.json", declaration)
    experiment = samples.experiment()
    experiment["globals"] = {"user/adder/1": {"offset": 1}}
    write(tmp_path, "experiments/user/user/sums/1/first.json", experiment)
    mine = owned_by(read_prefix(tmp_path), "cy")
    assert mine.of("algorithms")["cy/adder/1"].declaration["uses"] == {
        "tools": "cy/tools/1",
        "far": "bob/tools/1",
    }
    [one] = mine.experiments
    assert one.declaration["globals"] == {"cy/adder/1": {"offset": 1}}
    # its toolchain is not in the folder: it is somebody's, on the server
    assert (one.name, one.toolchain, one.owner) == ("first", "user/sums/1", "cy")


def test_two_owners_things_of_one_name_are_refused(tmp_path: Path) -> None:
    for owner in ("ann", "bob"):
        write(tmp_path, f"libraries/{owner}/tools/1.json", {"language": "python"})
    with pytest.raises(BadPrefix, match="would both become cy/tools/1"):
        owned_by(read_prefix(tmp_path), "cy")


def test_a_ring_of_libraries_is_refused(tmp_path: Path) -> None:
    for name, other in (("a", "b"), ("b", "a")):
        declaration = {"language": "python", "uses": {"x": f"ann/{other}/1"}}
        write(tmp_path, f"libraries/ann/{name}/1.json", declaration)
    with pytest.raises(BadPrefix, match="in a ring: ann/a/1, ann/b/1"):
        in_order(read_prefix(tmp_path))
