"""JSON is the same value after a Variant; what a Variant can't hold is a string, never lost."""

import json
from decimal import Decimal, localcontext
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql.variant_utils import VariantUtils

from logdrive.pipeline.decode.schema import VARIANT
from logdrive.pipeline.formats.variant import DEEPEST, LONGEST, encode_variants

SAFE = st.text(st.characters(exclude_categories=["Cs"]), max_size=80)
NUMBERS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,50})(\.[0-9]{1,45})?([eE][+-]?[0-9]{1,4})?", fullmatch=True
)


def said(text: str) -> Any:
    """Return the JSON value that the Variant of *text* has, with numbers as decimals."""
    return read(encode_variants(pa.array([text]))[0].as_py())


def read(variant: dict[str, bytes]) -> Any:
    with localcontext(prec=60):  # the reader multiplies, by default with 28 digits
        return exact(VariantUtils.to_json(variant["value"], variant["metadata"]))


def exact(text: str) -> Any:
    return json.loads(text, parse_int=Decimal, parse_float=Decimal)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | SAFE
    | st.integers(-(10**37), 10**37)
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(SAFE, inner, max_size=5),
    max_leaves=25,
)


@given(JSON)
@example({f"key {n}": n for n in range(300)})
@example(list(range(100_000)))
@example({"": {"": ""}, "é": "日本", "😀": "\uffff", "long": "x" * 70_000})
def test_json_is_the_same_value_after_a_variant(value: Any) -> None:
    for text in (json.dumps(value), json.dumps(value, ensure_ascii=False)):
        assert said(text) == exact(text)


@given(st.lists(st.none() | JSON.map(json.dumps), max_size=12), st.integers(0, 3))
def test_rows_stay_in_their_places_and_null_stays_null(texts: list[str | None], first: int) -> None:
    variants = encode_variants(pa.array(texts, pa.string()).slice(first))
    variants.validate(full=True)
    assert variants.type == VARIANT
    assert variants.field(0).null_count == variants.field(1).null_count == 0
    values = [None if one is None else read(one) for one in variants.to_pylist()]
    assert values == [None if text is None else exact(text) for text in texts[first:]]


@given(NUMBERS)
@example("1" * 39)
@example("1" + "0" * 60)
@example("9007199254740993e0")
@example("1e400")
@example("1e-400")
@example("1e99999999999999999999")
@example("1" * 5000)
@example("0." + "0" * 40 + "1")
def test_a_number_keeps_all_of_its_digits_if_need_be_as_a_string(number: str) -> None:
    value = said(f'{{"n":[{number}]}}')["n"][0]
    if isinstance(value, str):
        assert value == number
        assert len(number) > 16 or "e" in number.lower()
    else:
        assert value == Decimal(number)


@pytest.mark.parametrize(
    ("number", "held"),
    [
        ("9223372036854775808", True),
        ("-" + "9" * 38, True),
        ("9" * 39, False),
        ("0.10", True),
        ("0." + "1" * 38, True),
        ("0." + "1" * 39, False),
        ("1.5e300", True),
        ("1.5e309", False),
    ],
)
def test_a_number_is_a_number_as_long_as_one_type_holds_it(number: str, held: bool) -> None:
    assert isinstance(said(number), Decimal) == held


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r'"\ud800x"', r"\ud800x"),
        (r'{"\udc00":"\ud83d\ude00 \ud83d"}', {r"\udc00": r"😀 \ud83d"}),
        (r'"\\ud800"', r"\ud800"),
    ],
)
def test_half_of_a_surrogate_pair_is_its_escape(text: str, value: Any) -> None:
    assert said(text) == value


def test_of_a_key_that_comes_twice_the_last_value_counts() -> None:
    assert said('{"a":1,"b":{"c":1,"c":2},"a":3}') == {"a": 3, "b": {"c": 2}}


@pytest.mark.parametrize(
    "text",
    [
        "[" * (DEEPEST + 1) + "]" * (DEEPEST + 1),
        '{"a":' * 100_000 + "1" + "}" * 100_000,
        json.dumps(["é" * (LONGEST // 2)]),
        "no JSON",
        '{"a":1',
        '"1e400',
        "[1e400,]",
        "",
    ],
    ids=lambda text: text[:9],
)
def test_what_no_variant_can_hold_is_a_string_with_the_text(text: str) -> None:
    (variant,) = encode_variants(pa.array([text])).to_pylist()
    assert VariantUtils.to_python(variant["value"], variant["metadata"]) == text


def test_what_nests_as_deeply_as_is_allowed_is_no_string() -> None:
    text = "[" * DEEPEST + "1" + "]" * DEEPEST
    assert said(text) == exact(text)


def test_the_largest_text_of_many_short_values_is_no_string() -> None:
    text = f"[{'[],' * ((LONGEST - 4) // 3)}[]]"
    assert len(text) <= LONGEST
    (variant,) = encode_variants(pa.array([text])).to_pylist()
    assert VariantUtils._get_type_info(variant["value"], 0)[0] == VariantUtils.ARRAY


@given(st.text(max_size=60) | st.text('{}[]",:\\u0d8e1.', max_size=40))
def test_no_text_is_refused(text: str) -> None:
    text = text.encode("utf-8", "replace").decode()
    (variant,) = encode_variants(pa.array([text])).to_pylist()
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError:
        return
    if isinstance(value, str):
        assert VariantUtils.to_python(variant["value"], variant["metadata"]) == value
