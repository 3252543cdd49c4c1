"""A list of batches keeps to its limits, in stored and in raw bytes, and is never empty."""

from uuid import UUID
from zlib import crc32

import pytest

from logdrive.model.batch import BatchHeader
from logdrive.model.batch_walker import BatchRef, trusted_header
from logdrive.model.limits import PACK_BYTES
from logdrive.services.batch_budget import BatchBudget

PACK = {"kind": "data", "records": 1, "events": 1, "form": "text"}


def batch(**fields: object) -> BatchRef:
    values = {"source": str(UUID(int=1)), "received": 1, "store": "s"}
    payload = BatchHeader(**(values | fields)).encode()  # type: ignore[arg-type]
    header = trusted_header(payload)
    assert header is not None
    body = 8 + len(payload)
    return BatchRef(0, body, body + header.size, crc32(payload), header, payload)


def test_a_pack_is_as_large_as_the_text_in_it() -> None:
    packed = batch(**PACK, size=500, previous=1000, position=9000, skipped=2000)
    assert packed.raw_size == 6000
    assert batch(**PACK, size=500, previous=0, position=10).raw_size > 500, "stored as it is"


def test_what_is_no_pack_is_as_large_as_it_is_stored() -> None:
    block = batch(kind="data", records=1, events=9, size=500, previous=0, position=400_000)
    foreign = batch(kind="foreign", records=1, events=1, size=500)
    stray = BatchRef(0, 20, 20, 0, None, b"x" * 12)
    assert [one.raw_size for one in (block, foreign, stray)] == [
        one.size for one in (block, foreign, stray)
    ]


def test_no_pack_counts_more_than_a_pack_may_hold() -> None:
    """Its sender may claim anything (R8); a plan must go on in steps of a sensible size."""
    assert batch(**PACK, size=500, previous=0, position=1 << 45).raw_size == PACK_BYTES


@pytest.mark.parametrize(
    ("most", "most_raw", "admitted"),
    [(None, None, 5), (0, None, 1), (None, 0, 1), (None, 3000, 3), (None, 2999, 2), (1, 3000, 1)],
)
def test_batches_are_admitted_up_to_either_limit(
    most: int | None, most_raw: int | None, admitted: int
) -> None:
    budget = BatchBudget(most, most_raw)
    batches = [batch(**PACK, size=100, previous=0, position=1000) for _ in range(5)]
    assert [budget.admits(one) for one in batches] == [True] * admitted + [False] * (5 - admitted)


def test_stored_bytes_count_with_the_headers() -> None:
    one = batch(kind="foreign", records=0, events=0, size=0)
    budget = BatchBudget(2 * len(one.payload) + 16, None)
    assert [budget.admits(one) for _ in range(3)] == [True, True, False]
