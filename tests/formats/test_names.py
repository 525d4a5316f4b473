"""Names and references."""

from __future__ import annotations

import pytest

from gristmill import formats
from gristmill.formats import DatabaseRef, Ref


def test_a_reference_is_read_and_written() -> None:
    assert Ref.parse("user-1/my_algo/12") == Ref("user-1", "my_algo", 12)
    assert str(Ref("a", "b", 3)) == "a/b/3"
    assert DatabaseRef.parse("digits/1") == DatabaseRef("digits", 1)
    assert str(DatabaseRef("digits", 1)) == "digits/1"


BAD_NAMES = [
    "../etc",
    "..",
    ".",
    "a/b",
    "a\\b",
    "<img src=x onerror=alert(1)>",
    "😀",
    "naïve",
    "a b",
    "a\n",
    "a\0",
    "%2e%2e",
    "",
    "\ud800",
    "x" * 10_000,
]


@pytest.mark.parametrize("name", BAD_NAMES)
def test_a_bad_name_is_refused_in_a_short_sentence(name: str) -> None:
    for ref in (f"{name}/x/1", f"x/{name}/1"):
        with pytest.raises(formats.BadDocument) as caught:
            Ref.parse(ref)
        assert "owner/name/version" in str(caught.value)
        assert len(str(caught.value)) < 300
    [problem] = formats.name_problems(name)
    assert problem.pointer == "/name"
    assert problem.found is not None
    assert problem.found.isprintable()
    problem.found.encode()


@pytest.mark.parametrize(
    "version", ["0", "01", "-1", "1.0", "", "x", "1 ", "2147483648", "٣", "9" * 50]
)
def test_a_bad_version_is_refused(version: str) -> None:
    for kind, text in ((Ref, f"a/b/{version}"), (DatabaseRef, f"b/{version}")):
        with pytest.raises(formats.BadDocument):
            kind.parse(text)


@pytest.mark.parametrize("ref", [None, 5, [], {}, "a/b", "a/b/1/2", "a/b/1\n"])
def test_what_is_no_reference_is_refused(ref: object) -> None:
    with pytest.raises(formats.BadDocument):
        Ref.parse(ref)
