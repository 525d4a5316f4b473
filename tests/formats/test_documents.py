"""Reading JSON strictly."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill import formats


def refusal(text: str | bytes) -> formats.Problem:
    with pytest.raises(formats.BadDocument) as caught:
        formats.parse_json(text)
    return caught.value.problems[0]


def test_reads_what_is_well_formed() -> None:
    assert formats.parse_json(b'{"a": [1, 2.5, "x", null, true]}') == {
        "a": [1, 2.5, "x", None, True]
    }


def test_a_doubled_key_is_refused_with_its_place() -> None:
    found = refusal('{"blocks": [{}, {"name": "a", "name": "b"}]}')
    assert (found.pointer, found.code) == ("/blocks/1/name", "duplicate")


def test_too_deep_is_refused_however_deep() -> None:
    for levels in (41, 1_000, 200_000):
        assert refusal("[" * levels + "]" * levels).code == "too_deep"
    assert formats.parse_json("[" * 40 + "]" * 40)


def test_too_big_is_refused_before_it_is_read() -> None:
    with pytest.raises(formats.BadDocument, match="at most 10 are read"):
        formats.parse_json("[" * 11, largest=10)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("{", "syntax"),
        ("", "syntax"),
        (b"\xff", "encoding"),
        ("[NaN]", "number"),
        ("[-Infinity]", "number"),
        ("[1e999]", "number"),
        ("[" + "9" * 5000 + "]", "number"),
        ("[18446744073709551616]", "number"),
        (r'["\u0000"]', "text"),
        (r'["\ud800"]', "text"),
        (r'{"\udc00": 1}', "text"),
    ],
)
def test_what_cannot_be_stored_is_refused(text: str | bytes, code: str) -> None:
    assert refusal(text).code == code


def test_a_message_shows_little_of_a_long_text() -> None:
    found = refusal(json.dumps(["\0" + "x" * 10_000]))
    assert found.found is not None
    assert len(found.found) < 200


def test_a_value_of_no_json_type_is_told() -> None:
    assert formats.check_document({"a": {1, 2}, 3: "x"})[0].code == "type"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(JSON)
def test_any_json_is_either_read_back_or_refused(value: object) -> None:
    text = json.dumps(value)
    problems = formats.check_document(value)
    if problems:
        assert refusal(text).code in {problem.code for problem in problems}
    else:
        assert formats.parse_json(text) == value
