"""Card numbers are told from other digits by issuer, length and check digit."""

import sys
from types import FrameType
from typing import Any

import pytest

from agent.events.processors.card_numbers import find_card_numbers


@pytest.mark.parametrize(
    "number",
    [
        "4111111111111111",
        "4222222222222",
        "5105105105105100",
        "2223003122003222",
        "371449635398431",
        "30569309025904",
        "6011000990139424",
        "3530111333300000",
        "6200000000000005",
        "4111 1111 1111 1111",
        "3714-496353-98431",
        "4 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1",
    ],
)
def test_a_card_number_is_found_among_other_digits(number: str) -> None:
    text = f"17 {number} 12-2029, 1700000000"

    assert [text[a:b] for a, b in find_card_numbers(text.encode())] == [number]


@pytest.mark.parametrize(
    "text",
    ["4111111111111112", "1234567812345670", "411111111111", "5" * 40, "4111  1111 1111 1111"],
)
def test_other_digits_are_left_alone(text: str) -> None:
    assert list(find_card_numbers(text.encode())) == []


@pytest.mark.parametrize("digit", [b"1", b"4"])
def test_a_long_row_of_digits_takes_few_steps_a_digit(digit: bytes) -> None:
    count, calls = 20_000, 0

    def count_call(_frame: FrameType, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count_call)
    try:
        found = list(find_card_numbers((digit + b" ") * count))
    finally:
        sys.setprofile(None)
    assert (found, calls < 4 * count) == ([], True)


def test_of_a_row_of_groups_the_longest_number_counts() -> None:
    text = b"4 222222222222 4111-1111-1111-1111 9 4000056655665556789 1"
    spans = list(find_card_numbers(text))
    assert [text[a:b] for a, b in spans] == [b"4 222222222222", b"4111-1111-1111-1111"]
