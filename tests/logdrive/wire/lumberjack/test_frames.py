"""Golden vectors both ways, from the seed document and the tables of
`docs/protocols/lumberjack.md`; runs of J frames.
"""

from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.model.framing import frame_events
from logdrive.wire.lumberjack import frames as module
from logdrive.wire.lumberjack.frames import (
    EnvelopeFrame,
    Frame,
    JsonFrame,
    JsonRun,
    KeyValueFrame,
    PackFrame,
    PositionFrame,
    RefusalCode,
    RefusalFrame,
    RunFrame,
    SourceFrame,
    json_frames,
)
from tests.logdrive.wire.lumberjack.streams import ORIGIN, SPOKEN, VECTORS, kinds_taken, reader


def built(kind: str, fields: dict[str, Any]) -> Frame:
    fields = dict(fields)
    if kind == "JsonRun":
        return JsonRun.of(fields["first"], [payload.encode() for payload in fields["payloads"]])
    if kind == "PackFrame":
        return PackFrame.of(fields["sequence"], bytes.fromhex(fields["pack"]))
    if kind == "KeyValueFrame":
        fields["pairs"] = tuple((key, value) for key, value in fields["pairs"])
    if "attributes" in fields:
        fields["attributes"] = fields["attributes"].encode()
    for name in ("origin", "store"):
        if name in fields:
            fields[name] = UUID(fields[name])
    frame: Frame = getattr(module, kind)(**fields)
    return frame


@pytest.mark.parametrize("vector", VECTORS, ids=[v["name"] for v in VECTORS])
def test_golden_bytes_are_read_as_the_document_says(vector: dict[str, Any]) -> None:
    frames = reader(vector["dialect"], vector["side"])
    assert frames.receive_data(bytes.fromhex(vector["hex"])) == [
        built(*frame) for frame in vector["frames"]
    ]


WRITABLE = [v for v in VECTORS if v["encodes_back"]]


@pytest.mark.parametrize("vector", WRITABLE, ids=[v["name"] for v in WRITABLE])
def test_golden_frames_are_written_as_the_document_says(vector: dict[str, Any]) -> None:
    stream = bytes.fromhex(vector["hex"])
    assert b"".join(built(*frame).encode(stream[:1]) for frame in vector["frames"]) == stream


def test_every_frame_type_that_a_reader_takes_has_a_golden_vector() -> None:
    taken = {kind for dialect, side in SPOKEN for kind in kinds_taken(dialect, side)}
    assert taken == {chr(bytes.fromhex(vector["hex"])[1]) for vector in VECTORS}


def test_frames_have_the_lengths_that_the_tables_give() -> None:
    assert len(PositionFrame(1, 2, ORIGIN).encode()) == 30
    assert len(RunFrame(0, 0, 0, 1, 0, 0, 0, 1).encode()) == 47
    assert len(SourceFrame(1, ORIGIN, b"{}").encode()) == 26 + 2
    assert len(RefusalFrame(1, RefusalCode.LIMIT, "é").encode()) == 12 + 2
    assert EnvelopeFrame(b"abc").encode() == b"2C\0\0\0\3abc"
    assert len(PackFrame.of(1, b"p" * 11).encode()) == 10 + 11


def test_data_that_is_not_utf_8_becomes_replacement_characters() -> None:
    stream = bytes.fromhex("31 44 00000001 00000001 00000001 ff 00000002 61fe")
    assert reader().receive_data(stream) == [KeyValueFrame(1, (("�", "a�"),))]


payload_lists = st.lists(st.binary(min_size=1, max_size=30), min_size=1, max_size=20)


@given(st.integers(0, 2**32 - 21), payload_lists)
def test_json_frames_written_in_bulk_equal_those_written_singly(
    first: int, payloads: list[bytes]
) -> None:
    singly = b"".join(JsonFrame(first + i, payload).encode() for i, payload in enumerate(payloads))
    assert b"".join(json_frames(first, payloads)) == singly == JsonRun.of(first, payloads).encode()


@given(st.integers(0, 1000), payload_lists)
def test_a_run_frames_its_payloads_as_pravega_events(first: int, payloads: list[bytes]) -> None:
    run = JsonRun.of(first, payloads)
    assert b"".join(run.parts) == frame_events(payloads)
    assert run.size == len(frame_events(payloads))
    assert (run.payloads, run.last, len(run)) == (
        payloads,
        first + len(payloads) - 1,
        len(payloads),
    )


@given(
    st.integers(0, 1000),
    st.lists(st.binary(min_size=1, max_size=9), min_size=2, max_size=9),
    st.data(),
)
def test_a_run_splits_into_two_that_make_it_up(
    first: int, payloads: list[bytes], data: st.DataObject
) -> None:
    run, cut = JsonRun.of(first, payloads), data.draw(st.integers(1, len(payloads) - 1))
    head, tail = run.split(cut)
    assert (head, tail) == (
        JsonRun.of(first, payloads[:cut]),
        JsonRun.of(first + cut, payloads[cut:]),
    )


def test_a_split_copies_the_first_frames_and_not_the_rest() -> None:
    """A peer may let every event be a window of its own: copying the rest each time would be
    quadratic.
    """
    run = JsonRun.of(1, [b"%d" % number for number in range(50)])
    for number in range(49):
        head, run = run.split(1)
        assert (head.first, head.payloads, type(head.parts[0])) == (
            number + 1,
            [b"%d" % number],
            bytes,
        )
        assert isinstance(run.parts[0], memoryview)
