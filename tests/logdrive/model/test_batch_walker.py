"""Batches in bytes: any split of a segment gives the same ones, with and without their records."""

import contextlib
from dataclasses import dataclass, field
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import UNSET
from msgspec.structs import replace

from logdrive.errors import StorageError
from logdrive.model.batch import BatchHeader
from logdrive.model.batch_walker import BatchRef, BatchWalker, trusted_header
from logdrive.model.framing import EVENT_HEAD, frame_event, frame_events, split_events

_LIMIT = 1 << 16


def _batch(records: list[bytes]) -> bytes:
    body = frame_events(records)
    header = BatchHeader(
        kind="data",
        source=str(UUID(int=1)),
        previous=0,
        position=len(body),
        records=len(records),
        events=len(records),
        size=len(body),
        received=1,
        store=str(UUID(int=2)),
    )
    return frame_event(header.encode()) + body


headless = st.binary(max_size=40).map(frame_event)
segments = st.lists(
    st.lists(st.binary(max_size=40), max_size=4).map(_batch) | headless, max_size=8
).map(b"".join)


@dataclass
class Read:
    """The batches that a walker returned, and the records of each."""

    batches: list[BatchRef] = field(default_factory=list)
    records: list[bytes] = field(default_factory=list)


def _walk(data: bytes, step: int) -> Read:
    walker, read = BatchWalker("s", 7, max_event=_LIMIT), Read()
    for at in range(0, len(data), step):
        walker.receive_data(data[at : at + step], 7 + at)
        while (batch := walker.next_batch()) is not None:
            read.batches.append(batch)
            read.records.append(walker.records_of(batch))
    return read


@given(segments, st.integers(1, 200))
def test_any_split_of_a_segment_gives_the_same_batches(data: bytes, step: int) -> None:
    whole = _walk(data, max(1, len(data)))
    assert _walk(data, step) == whole
    payloads = [frame_event(batch.payload) for batch in whole.batches]
    pairs = zip(payloads, whole.records, strict=True)
    assert b"".join(part for pair in pairs for part in pair) == data


@given(segments, st.integers(0, 100))
def test_headers_alone_are_found_from_few_bytes_each(data: bytes, guess: int) -> None:
    walker, found = BatchWalker("s", 7, max_event=_LIMIT), list[BatchRef]()
    while walker.position + walker.header_bytes <= 7 + len(data):
        batch = walker.next_header()
        if batch is not None:
            found.append(batch)
            continue
        at = walker.position - 7
        walker.receive_data(data[at : at + max(walker.header_bytes, guess)], walker.position)
    assert found == _walk(data, max(1, len(data))).batches


@given(st.binary(max_size=200))
def test_garbage_raises_nothing_but_a_storage_error(data: bytes) -> None:
    with contextlib.suppress(StorageError):
        _walk(data, 50)


PACKED = BatchHeader(
    kind="data",
    form="text",
    source="s",
    previous=0,
    position=8,
    records=1,
    events=2,
    size=26,
    received=1,
    store="t",
)


def test_a_header_names_the_form_of_its_pack_after_the_kind__R4() -> None:
    encoded = PACKED.encode()
    assert encoded.startswith(b'{"logdrive":{"v":1,"kind":"data","form":"text","source":"s",')
    assert trusted_header(encoded) == PACKED
    plain = replace(PACKED, form=UNSET)
    assert plain.encode() == encoded.replace(b'"form":"text",', b"")
    assert trusted_header(plain.encode()) == plain


@pytest.mark.parametrize(
    "header",
    [
        replace(PACKED, kind="gap"),
        replace(PACKED, kind="foreign", previous=None, position=None),
        replace(PACKED, records=2),
        replace(PACKED, records=0, size=0),
    ],
)
def test_a_form_where_there_can_be_no_pack_makes_a_header_headless(header: BatchHeader) -> None:
    assert trusted_header(header.encode()) is None
    assert trusted_header(replace(header, form=UNSET).encode()) is not None


@pytest.mark.parametrize("form", [b'"cut"', b'""', b"null", b"1", b'"Text"'])
def test_a_form_that_is_not_known_makes_a_header_headless(form: bytes) -> None:
    assert trusted_header(PACKED.encode().replace(b'"text"', form)) is None


def test_an_event_over_the_limit_is_refused_from_its_head() -> None:
    walker = BatchWalker("s", 0, max_event=10)
    walker.receive_data(frame_event(bytes(11))[:EVENT_HEAD], 0)
    with pytest.raises(StorageError, match="s at 0: an event of 11 bytes"):
        walker.next_header()


@given(st.lists(st.binary(max_size=20), max_size=5), st.integers(1, 8))
def test_events_that_do_not_fill_their_bytes_are_refused(payloads: list[bytes], cut: int) -> None:
    data = frame_events([*payloads, b"last"])
    assert list(split_events(data)) == [*payloads, b"last"]
    with pytest.raises(ValueError, match="cut off"):
        list(split_events(data[:-cut]))
