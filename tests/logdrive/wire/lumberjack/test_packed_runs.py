"""Rules D1 and R8: where a `logdrive/1` writer may send a pack, and what of it shows outside."""

from contextlib import nullcontext, suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from logdrive.errors import ProtocolError
from logdrive.model.framing import EVENT_HEAD, frame_event
from logdrive.model.limits import PACK_BYTES, RECORD_BYTES
from logdrive.model.numbers import CLOSED, position_of
from logdrive.model.records import DATA, END, GAP
from logdrive.model.units import KIB
from logdrive.packs.contents import open_run
from logdrive.packs.cuts import join_cuts
from logdrive.packs.pack import PackCodec, PackError, PackForm, make_pack, open_pack, parse_head
from logdrive.wire.lumberjack.envelope import pack as envelope
from logdrive.wire.lumberjack.frames import (
    EnvelopeFrame,
    Frame,
    JsonRun,
    PackFrame,
    RefusalCode,
    RunFrame,
    SourceFrame,
    WindowFrame,
    pack_frame,
)
from logdrive.wire.lumberjack.limits import WINDOW_BYTES
from logdrive.wire.lumberjack.run_reader import RunReader, RunReceived, WindowEnd
from tests.logdrive.packs.made import pack_of
from tests.logdrive.wire.lumberjack.streams import ORIGIN, VECTORS, feed_in_steps, reader

N = 1 << 16  # the number of position 1
SOURCE = SourceFrame(3, ORIGIN, b"{}")
TEXT = b"one\ntwo\n"
PACK = make_pack(PackForm.TEXT, TEXT, PackCodec.STORED)
WINDOW = WindowFrame(1)


def run(start: int = 0, end: int = 8, *, events: int = 2, skipped: int = 0) -> RunFrame:
    return RunFrame(3, DATA, start * N, end * N, 0, skipped, events, 1)


def z(sequence: int, pack: bytes = PACK) -> PackFrame:
    return PackFrame.of(sequence, pack)


def received(*frames: Frame) -> list[Any]:
    return list(RunReader().check_frames([SOURCE, *frames]))[1:]


def refused(*frames: Frame) -> ProtocolError:
    """Return why the last of *frames* is refused; those before it must be accepted."""
    runs = RunReader()
    runs.check_frames([SOURCE, *frames[:-1]])
    with pytest.raises(ProtocolError) as error:
        runs.check_frames(frames[-1:], offset=77)
    assert error.value.offset == 77
    return error.value


def test_a_pack_is_a_run_by_itself() -> None:
    assert received(WINDOW, run(), z(1)) == [
        RunReceived(run(), 1, z(1).parts, EVENT_HEAD + len(PACK), parse_head(PACK)),
        WindowEnd(1),
    ]


def test_packs_and_records_take_turns_and_count_together() -> None:
    gap = RunFrame(3, GAP, 8 * N, 9 * N, 0, 0, 0, 1)
    lines = RunFrame(3, DATA, 9 * N, 11 * N, 0, 0, 2, 2)
    given_ = received(
        WindowFrame(5),
        *(run(), z(1), gap, JsonRun.of(2, [b"{}"]), lines, JsonRun.of(3, [b"a", b"b"])),
        *(run(11, 19), z(5)),
    )
    assert [item.last for item in given_] == [1, 2, 4, 5, 5]
    heads = [item.pack for item in given_[:-1]]
    assert heads == [parse_head(PACK), None, None, parse_head(PACK)]


@pytest.mark.parametrize(
    ("frames", "reason"),
    [
        ([z(1)], "frame Z where S or W is due"),
        ([WINDOW, z(1)], "frame Z where B is due"),
        ([WINDOW, run(), z(1), z(2)], "frame Z where S or W is due"),
        ([WindowFrame(2), run(), z(1), z(2)], "frame Z where B is due"),
        ([WindowFrame(2), run(), z(1), JsonRun.of(2, [b"{}"])], "frame J where B is due"),
        ([WindowFrame(2), RunFrame(3, DATA, 0, 8 * N, 0, 0, 2, 2), z(1)], "Z where J is due"),
        ([WINDOW, RunFrame(3, GAP, 0, 8 * N, 0, 0, 0, 1), z(1)], "frame Z where J is due"),
        ([WINDOW, RunFrame(3, END, 0, CLOSED + 8 * N, 0, 0, 0, 1), z(1)], "Z where J is due"),
        ([WINDOW, run(), z(0)], "sequence number 0 after 0"),
        ([WINDOW, run(), z(2)], "sequence number 2 after 0"),
    ],
)
def test_a_pack_out_of_order_is_refused(frames: list[Frame], reason: str) -> None:
    error = refused(*frames)
    assert reason in str(error)
    assert error.code == RefusalCode.PROTOCOL


CUT = pack_of(join_cuts([4, -2, 4], TEXT), form=PackForm.CUT_TEXT)
OUTSIDE: dict[str, tuple[RunFrame, bytes]] = {
    "positions of a longer text": (run(0, 9), PACK),
    "positions of a shorter text": (run(1, 8), PACK),
    "no events": (run(events=0), PACK),
    "more events than bytes": (run(events=9), PACK),
    "text left out of whole text": (run(skipped=1), PACK),
    "no progress but in the check": (RunFrame(3, DATA, N, N + 1, 0, 0, 2, 1), PACK),
    "cut text that leaves out another number": (run(0, 10, skipped=1), CUT),
    "more left out than there is": (run(0, 10, skipped=11), CUT),
    "more records than bytes": (run(events=4), pack_of(bytes(30), form=PackForm.RECORDS)),
    "an unknown form": (run(), pack_of(TEXT, form=4)),
    "an unknown codec": (run(), pack_of(TEXT, codec=3)),
    "a size that is stored otherwise": (run(), pack_of(TEXT, size=9)),
    "a size over the limit": (
        run(0, PACK_BYTES + 1),
        pack_of(bytes(9999), codec=1, size=PACK_BYTES + 1),
    ),
    "a ratio over the limit": (run(0, 99999), pack_of(b"a" * 9, codec=1, size=99999)),
}


@pytest.mark.parametrize("lie", OUTSIDE)
def test_what_shows_without_opening_a_pack_is_refused(lie: str) -> None:
    begun, pack = OUTSIDE[lie]
    error = refused(WINDOW, begun, z(1, pack))
    assert "a run with a" in str(error)
    assert error.code == RefusalCode.PROTOCOL


def test_cut_text_and_records_are_taken() -> None:
    records = pack_of(b"\0\0\0\0\0\0\0\2{}", form=PackForm.RECORDS)
    given_ = received(
        WindowFrame(2), run(0, 10, skipped=2), z(1, CUT), run(10, 11, events=1), z(2, records)
    )
    assert [item.pack.form for item in given_[:2]] == [PackForm.CUT_TEXT, PackForm.RECORDS]


def test_what_only_the_inside_shows_is_taken_as_it_came() -> None:
    """The pipeline quarantines it; no other source waits for it to be opened here."""
    for pack in (pack_of(TEXT, crc=1), pack_of(TEXT, b"garbage", codec=1)):
        (item, _) = received(WINDOW, run(), z(1, pack))
        assert b"".join(item.parts) == frame_event(pack)
    assert len(received(WINDOW, run(events=7), z(1))) == 2


def test_a_window_of_packs_counts_them_packed() -> None:
    size = RECORD_BYTES - EVENT_HEAD - 100
    pack = pack_of(bytes(size))
    fits = WINDOW_BYTES // RECORD_BYTES
    frames: list[Frame] = [WindowFrame(99)]
    for number in range(fits):
        frames += [run(number * size, (number + 1) * size), z(number + 1, pack)]
    last = run(fits * size, (fits + 1) * size), z(fits + 1, pack)
    assert len(received(*frames)) == fits
    error = refused(*frames, *last)
    assert (error.code, "a window of more than" in str(error)) == (RefusalCode.LIMIT, True)


def through(*parts: bytes, step: int = 1 << 20) -> list[Any]:
    frames, runs = reader("logdrive/1"), RunReader()
    return list(runs.check_frames(feed_in_steps(frames, b"".join(parts), step)))


def c(content: bytes) -> bytes:
    return EnvelopeFrame(envelope(content)).encode()


BEGUN, FRAME = run().encode(), z(1).encode()


@given(st.integers(1, 200))
def test_a_packed_run_comes_bare_or_in_an_envelope_in_any_reads(step: int) -> None:
    stream = SOURCE.encode() + WINDOW.encode()
    for window in (BEGUN + FRAME, c(BEGUN + FRAME)):
        _, item, end = through(stream, window, step=step)
        assert (item.run, item.payloads, end) == (run(), [PACK], WindowEnd(1))


@pytest.mark.parametrize("window", [c(BEGUN) + FRAME, BEGUN + c(FRAME), c(BEGUN) + c(FRAME)])
def test_a_packed_run_lies_in_one_envelope_or_in_none(window: bytes) -> None:
    with pytest.raises(ProtocolError, match="not in one envelope"):
        through(SOURCE.encode(), WINDOW.encode(), window)


DEFLATED = make_pack(PackForm.TEXT, TEXT * 50, PackCodec.DEFLATE)
STREAM = b"".join(
    frame.encode()
    for frame in (
        *(SOURCE, WindowFrame(3), run(), z(1), run(8, 408, events=100), z(2, DEFLATED)),
        *(run(408, 418, skipped=2), z(3, CUT)),
    )
)


@given(st.lists(st.tuples(st.integers(0, len(STREAM) - 1), st.integers(1, 255)), max_size=3))
@example([])
def test_a_damaged_stream_raises_only_the_errors_that_readers_expect(
    changes: list[tuple[int, int]],
) -> None:
    stream = bytearray(STREAM)
    for at, flip in changes:
        stream[at] ^= flip
    try:
        taken = through(bytes(stream))
    except ProtocolError:
        return
    for item in taken:
        if isinstance(item, RunReceived) and item.pack is not None:
            with nullcontext() if not changes else suppress(PackError):
                opened = open_run(
                    *item.payloads,
                    previous=position_of(item.run.previous),
                    position=position_of(item.run.number),
                    events=item.run.events,
                    skipped=item.run.skipped,
                )
                assert opened[0]


LARGE = make_pack(PackForm.TEXT, bytes(range(256)) * 1000, PackCodec.STORED)


@pytest.mark.parametrize("pack", [PACK, LARGE])
def test_a_pack_is_an_event_as_the_store_takes_it(pack: bytes) -> None:
    (frame,) = reader("logdrive/1").receive_data(z(1, pack).encode())
    assert isinstance(frame, PackFrame)
    assert b"".join(frame.parts) == frame_event(pack)
    assert (bytes(frame.pack), frame.size) == (pack, EVENT_HEAD + len(pack))
    assert frame.encode() == z(1, pack).encode()


def test_a_large_pack_is_not_copied_and_a_small_one_keeps_no_buffer() -> None:
    small_in_much = z(1).encode() + z(2, LARGE).encode()
    small, large = reader("logdrive/1").receive_data(small_in_much)
    assert isinstance(small, PackFrame)
    assert isinstance(large, PackFrame)
    assert [type(part) for part in small.parts] == [bytes]
    assert [type(part) for part in large.parts] == [bytes, memoryview]
    assert large.pack.obj is small_in_much  # type: ignore[union-attr]


def test_a_writer_copies_no_pack() -> None:
    head, body = pack_frame(1, LARGE)
    assert body is LARGE
    assert head + body == z(1, LARGE).encode()


@pytest.mark.parametrize("length", range(11))
def test_a_frame_without_a_pack_is_refused_from_its_head(length: int) -> None:
    head = b"2Z\0\0\0\1" + length.to_bytes(4, "big")
    with pytest.raises(ProtocolError, match=f"a pack of {length} bytes") as error:
        reader("logdrive/1").receive_data(head)
    assert error.value.code == RefusalCode.PROTOCOL


def test_a_pack_is_at_most_a_record() -> None:
    head = b"2Z\0\0\0\1"
    reader("logdrive/1").receive_data(head + RECORD_BYTES.to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match=f"over {768 * KIB}") as error:
        reader("logdrive/1").receive_data(head + (RECORD_BYTES + 1).to_bytes(4, "big"))
    assert error.value.code == RefusalCode.LIMIT


def test_the_packs_of_the_golden_vectors_can_be_opened() -> None:
    opened = set()
    for vector in VECTORS:
        for kind, fields in vector["frames"]:
            if kind == "PackFrame":
                head, content = open_pack(bytes.fromhex(fields["pack"]))
                opened.add((head.form, head.codec))
                assert content
    assert {form for form, _ in opened} == set(PackForm)
    assert {codec for _, codec in opened} == set(PackCodec)

    (whole,) = (v["frames"] for v in VECTORS if v["name"] == "window of one packed run")
    ((_, begun), (_, frame)) = whole[1:]
    pack = bytes.fromhex(frame["pack"])
    position = begun["number"] >> 16
    assert open_run(pack, previous=0, position=position, events=2, skipped=0)[0] == TEXT
