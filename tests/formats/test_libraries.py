"""Libraries and their closures."""

from __future__ import annotations

from typing import Any

import pytest

from gristmill.formats import BadDocument, check_library, check_uses, library_closure
from tests.formats import samples


def lib(**uses: str) -> dict[str, Any]:
    return {"language": "python", "uses": uses}


def test_sound_libraries_are_accepted() -> None:
    for ref, declaration in samples.libraries().items():
        assert check_library(declaration, samples.libraries(), ref) == []


@pytest.mark.parametrize(
    ("declaration", "pointer"),
    [
        ({}, "/language"),
        ([], ""),
        ({"language": "python", "uses": {"a b": "a/b/1"}}, "/uses/a b"),
        ({"language": "python", "uses": {"a": "a/b"}}, "/uses/a"),
        ({"language": "python", "environments": []}, "/environments"),
        ({"language": "python", "environments": [{"name": "x"}]}, "/environments/0/version"),
    ],
)
def test_a_wrong_shape_is_told(declaration: Any, pointer: str) -> None:
    assert [p.pointer for p in check_library(declaration)] == [pointer]


def test_a_library_that_uses_itself_is_refused() -> None:
    [problem] = check_library(lib(me="a/x/1"), {}, "a/x/1")
    assert (problem.pointer, problem.code) == ("/uses/me", "cycle")


def test_a_cycle_through_others_is_told_with_its_path() -> None:
    known = {"a/y/1": lib(z="a/z/1"), "a/z/1": lib(x="a/x/1")}
    [problem] = check_library(lib(y="a/y/1"), known, "a/x/1")
    assert "a/x/1 → a/y/1 → a/z/1 → a/x/1" in problem.message


def test_two_versions_of_one_library_are_refused() -> None:
    known = {"a/y/1": lib(z="a/z/1"), "a/z/1": lib(), "a/z/2": lib()}
    [problem] = check_uses(lib(y="a/y/1", z="a/z/2"), known, ("base",))
    assert (problem.pointer, problem.code) == ("/base/uses/z", "versions")
    assert "a/z/1" in problem.message
    assert "a/z/2" in problem.message


def test_a_library_never_uses_another_version_of_itself() -> None:
    [problem] = check_library(lib(old="a/x/1"), {"a/x/1": lib()}, "a/x/2")
    assert problem.code == "versions"


def test_an_unknown_library_is_told() -> None:
    [problem] = check_uses(lib(y="a/y/1"), {"a/y/1": lib(gone="a/gone/1")})
    assert (problem.pointer, problem.code) == ("/uses/y", "unknown")
    assert "a/gone/1" in problem.message


def test_languages_are_not_mixed() -> None:
    [problem] = check_uses(lib(y="a/y/1"), {"a/y/1": {"language": "r"}})
    assert problem.code == "language"


def test_the_closure_holds_each_once_after_what_it_uses() -> None:
    known = {
        "a/top/1": lib(l="a/left/1", r="a/right/1"),
        "a/left/1": lib(b="a/base/1"),
        "a/right/1": lib(b="a/base/1"),
        "a/base/1": lib(),
    }
    assert library_closure(["a/top/1", "a/left/1"], known) == [
        "a/base/1",
        "a/left/1",
        "a/right/1",
        "a/top/1",
    ]


def test_a_closure_with_a_hole_is_refused() -> None:
    with pytest.raises(BadDocument, match="There is no library a/gone/1"):
        library_closure(["a/gone/1"], {})


def test_a_chain_of_ten_thousand_libraries_needs_no_recursion() -> None:
    known = {f"a/l{n}/1": lib(next=f"a/l{n + 1}/1") for n in range(10_000)}
    known["a/l10000/1"] = lib()
    assert len(library_closure(["a/l0/1"], known)) == 10_001
