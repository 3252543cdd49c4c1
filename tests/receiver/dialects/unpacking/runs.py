"""Packed runs for tests, and what their unpacked runs say of the file."""

from collections.abc import Sequence
from typing import Any
from zlib import crc32

import orjson

from logdrive.model.framing import frame_events
from logdrive.model.numbers import number_of, position_of
from logdrive.model.records import DATA
from logdrive.packs.contents import count_text_lines
from logdrive.packs.cuts import join_cuts
from logdrive.packs.pack import PackCodec, PackForm, make_pack, parse_head
from logdrive.wire.lumberjack.frames import PackFrame, RunFrame
from logdrive.wire.lumberjack.run_reader import RunReceived
from tests.support.record_bytes import bytes_of

READ = 1_700_000_000_123


def received(
    form: PackForm, content: bytes, start: int, end: int, events: int, skipped: int = 0
) -> RunReceived:
    """Return a packed run of *content*, which takes a source from *start* to *end*."""
    pack = make_pack(form, content, PackCodec.DEFLATE)
    frame = PackFrame.of(7, pack)
    run = RunFrame(
        0, DATA, number_of(start, b"before"), number_of(end, b"after"), READ, skipped, events, 1
    )
    return RunReceived(run, 7, frame.parts, frame.size, parse_head(pack))


def of_text(text: bytes, start: int = 0) -> RunReceived:
    """Return a packed run of lines that begin at *start*."""
    return received(PackForm.TEXT, text, start, start + len(text), count_text_lines(text))


def of_cut_text(text: bytes, lengths: Sequence[int], start: int = 0) -> RunReceived:
    """Return a packed run of events of *lengths*, negative for what was left out."""
    skipped = -sum(length for length in lengths if length < 0)
    return received(
        PackForm.CUT_TEXT,
        join_cuts(lengths, text),
        start,
        start + len(text) + skipped,
        sum(length > 0 for length in lengths),
        skipped,
    )


def of_records(records: Sequence[bytes], start: int, end: int, skipped: int = 0) -> RunReceived:
    """Return a packed run of *records*."""
    content = frame_events(records)
    return received(PackForm.RECORDS, content, start, end, len(records), skipped)


def records_of(runs: Sequence[RunReceived]) -> list[dict[str, Any]]:
    """Return all records of *runs*, parsed."""
    return [orjson.loads(payload) for run in runs for payload in run.payloads]


def assert_takes_the_place(runs: Sequence[RunReceived], packed: RunReceived, text: bytes) -> None:
    """Check that *runs* follow one another from where *packed* begins to where it ends, each with
    figures that are true of its records, and that they fit a batch each (rules P1, R3, D3).

    *text* is the file's bytes from where *packed* begins, the whole stretch, b"" if unknown.
    """
    number, start = packed.run.previous, position_of(packed.run.previous)
    for run in runs:
        assert run.run.previous == number < run.run.number
        number = run.run.number
        end = position_of(number)
        # a check is right, or says that it is none
        tail = text[: end - start][-256:]
        known = len(tail) == 256 or start == 0
        if run is not runs[-1] and number & 0xFFFF:
            assert known
            assert number & 0xFFFF == (crc32(tail) & 0xFFFF or 1)

        assert run.pack is None
        assert (run.run.kind, run.run.read, run.last) == (DATA, READ, packed.last)
        assert run.size == sum(map(len, run.parts)) <= 896 * 1024
        assert run.run.records == len(run.payloads) <= 999
        assert all(0 < len(payload) <= 768 * 1024 for payload in run.payloads)
    assert number == packed.run.number
    assert sum(run.run.skipped for run in runs) == packed.run.skipped


def text_of(runs: Sequence[RunReceived], start: int) -> bytes:
    """Return the file's bytes in *runs* of blocks and lean records, which must lie back to back."""
    pieces: list[bytes] = []
    at = start
    for run in runs:
        events = 0
        for record in map(orjson.loads, run.payloads):
            piece, count = bytes_of(record)
            assert record["log"]["offset"] == at
            at, events = at + len(piece), events + count
            assert record["log"]["end"] == at
            pieces.append(piece)
        assert events == run.run.events
        assert at == position_of(run.run.number)
    return b"".join(pieces)
