"""Values of parameters."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gristmill.formats import BadDocument, clean_parameters, values
from tests.formats import samples


def test_defaults_are_filled_in_and_values_cast() -> None:
    assert clean_parameters(samples.adder(), {"offset": "5"}) == {
        "offset": 5,
        "mode": "plain",
        "scale": 1.0,
    }


def test_a_default_written_or_left_out_is_the_same() -> None:
    written = clean_parameters(samples.adder(), {"scale": 1.0, "offset": 3.0, "mode": "plain"})
    assert repr(written) == repr(clean_parameters(samples.adder(), {}))


def test_a_parameter_without_default_must_be_given() -> None:
    declaration = {"parameters": {"p": {"type": "int8"}}}
    with pytest.raises(BadDocument) as caught:
        clean_parameters(declaration, {}, ("blocks", "b", "parameters"))
    assert caught.value.problems[0].pointer == "/blocks/b/parameters/p"
    assert clean_parameters(declaration, {"p": 1}) == {"p": 1}


@pytest.mark.parametrize(
    ("given_", "code"),
    [
        ({"offset": 11}, "range"),
        ({"offset": 3.5}, "value"),
        ({"offset": True}, "value"),
        ({"mode": "even"}, "choice"),
        ({"mode": 3}, "value"),
        ({"scale": "nan"}, "value"),
        ({"scale": "1e999"}, "value"),
        ({"nothing": 1}, "unknown"),
    ],
)
def test_a_value_that_does_not_do_is_refused(given_: dict[str, Any], code: str) -> None:
    with pytest.raises(BadDocument) as caught:
        clean_parameters(samples.adder(), given_)
    assert [problem.code for problem in caught.value.problems] == [code]


@pytest.mark.parametrize(
    ("type_", "value", "expected"),
    [
        ("bool", "False", False),
        ("bool", 1, True),
        ("bool", 0.0, False),
        ("uint64", 2**64 - 1, 2**64 - 1),
        ("int64", "-9223372036854775808", -(2**63)),
        ("float32", "0.5", 0.5),
        ("float64", 3, 3.0),
        ("complex64", "1 + 2j", "1.0+2.0j"),
        ("complex128", 5, "5.0+0.0j"),
        ("string", "", ""),
    ],
)
def test_casts(type_: str, value: Any, expected: Any) -> None:
    assert repr(values.cast(value, type_)) == repr(expected)


SCALARS: st.SearchStrategy[Any] = (
    st.booleans() | st.integers() | st.floats() | st.text() | st.none() | st.just([])
)


@given(st.sampled_from(values.BASE_TYPES), SCALARS)
def test_a_cast_gives_a_fixed_point_or_refuses(type_: str, value: Any) -> None:
    try:
        once = values.cast(value, type_)
    except values.BadCast:
        return
    assert repr(values.cast(once, type_)) == repr(once)
