"""Stored numbers compared with a generation's bytes: which can be its own (D4, G3)."""

import pytest

from agent.sources.stored_number_check import SeenBytes, StoredNumberCheck
from logdrive.model.numbers import CLOSED, number_of
from tests.agent.sources.test_readable import TEXT, Bytes

WITHIN, AT_END = number_of(4, b"one\n"), number_of(len(TEXT), TEXT)
ANOTHERS = number_of(4, b"two\n")


def check(*, living: bool = True, closes_when_complete: bool = False) -> StoredNumberCheck:
    generation = Bytes(TEXT)
    return StoredNumberCheck(
        generation, generation if living else None, closes_when_complete=closes_when_complete
    )


def test_an_open_number_must_match_bytes_that_can_be_read__D4() -> None:
    assert check().may_be_own(WITHIN)
    assert not check().may_be_own(ANOTHERS)
    assert check(living=False).may_be_own(ANOTHERS), "bytes that are gone contradict nothing"


@pytest.mark.parametrize("number", [WITHIN, AT_END, ANOTHERS])
def test_a_closed_number_is_refused_while_the_file_may_grow__G3(number: int) -> None:
    assert not check().may_be_own(number + CLOSED)


def test_a_closed_number_is_that_of_a_complete_file_at_its_end_only__G3() -> None:
    complete = check(closes_when_complete=True)
    assert complete.may_be_own(AT_END + CLOSED)
    assert not complete.may_be_own(WITHIN + CLOSED)
    assert not complete.may_be_own(number_of(len(TEXT), b"other") + CLOSED)


def test_a_complete_file_that_is_gone_ended_with_the_last_bytes_known__G3() -> None:
    gone = check(living=False, closes_when_complete=True)
    assert gone.may_be_own(AT_END + CLOSED)
    assert not gone.may_be_own(WITHIN + CLOSED)
    assert not gone.may_be_own(number_of(len(TEXT), b"other") + CLOSED)


def test_a_generation_without_bytes_is_complete_at_no_number__G3() -> None:
    gone = StoredNumberCheck(None, None, closes_when_complete=True)
    assert not gone.is_complete_at(AT_END + CLOSED)
    assert gone.matches(WITHIN)


def test_of_bytes_that_are_gone_only_the_last_ones_known_are_sure__G3() -> None:
    gone = check(living=False)
    assert gone.is_gone
    assert not check().is_gone
    assert gone.is_surely_gone(AT_END)
    assert not gone.is_surely_gone(number_of(len(TEXT), b"other"))
    assert not gone.is_surely_gone(WITHIN), "another with that first line may have had so much"


def test_bytes_that_are_gone_were_as_many_as_were_seen_and_ended_as_seen__G3() -> None:
    gone = check(living=False)
    assert gone.may_be_gone(WITHIN)
    assert gone.may_be_gone(ANOTHERS), "nothing is known of the bytes there"
    assert gone.may_be_gone(AT_END)
    assert not gone.may_be_gone(number_of(len(TEXT), b"other"))
    assert not gone.may_be_gone(number_of(len(TEXT) + 1, TEXT))


def test_bytes_that_were_gone_at_a_start_are_judged_by_what_the_checkpoint_says__G3() -> None:
    gone = StoredNumberCheck(
        None, None, closes_when_complete=False, gone=SeenBytes(len(TEXT) + 3, AT_END)
    )
    assert gone.is_gone
    assert gone.is_surely_gone(AT_END)
    assert not gone.is_surely_gone(WITHIN)
    assert gone.may_be_gone(WITHIN)
    assert gone.may_be_gone(number_of(len(TEXT) + 3, b"unknown"))
    assert not gone.may_be_gone(number_of(len(TEXT) + 4, b"unknown"))
    assert not gone.may_be_gone(number_of(len(TEXT), b"other"))
