"""Descriptions of what a configuration key takes; numbers have all their digits, as in a file."""

from typing import Annotated, Any
from uuid import UUID

import pytest
from msgspec import Meta, inspect

from logdrive.config.words import describe_type


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        (Annotated[int, Meta(ge=1_048_576)], "a whole number of 1048576 or more"),
        (Annotated[int, Meta(ge=65_536, le=4_194_304)], "a whole number from 65536 to 4194304"),
        (Annotated[int, Meta(gt=0, lt=34_359_738_369)], "a whole number above 0 below 34359738369"),
        (Annotated[float, Meta(gt=0)], "a number above 0"),
        (Annotated[float, Meta(ge=1_234_567.0)], "a number of 1234567 or more"),
        (Annotated[float, Meta(ge=0.25, le=0.5)], "a number from 0.25 to 0.5"),
        (int, "a whole number"),
    ],
)
def test_bounds_of_numbers_are_written_in_full(type_: object, words: str) -> None:
    assert describe_type(inspect.type_info(type_)) == words


@pytest.mark.parametrize(
    ("type_", "words"),
    [
        (dict[str, Any], 'a table, as in { name = "value" }'),
        (dict[str, str], "a table whose values are each a text"),
        (UUID | None, "a UUID, as `uuidgen` prints one"),
    ],
)
def test_tables_of_free_keys_and_identifiers_have_words(type_: object, words: str) -> None:
    assert describe_type(inspect.type_info(type_)) == words
