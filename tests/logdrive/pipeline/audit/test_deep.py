"""Rule R8: a deep audit opens every pack of a stream, and names those that lie."""

import random
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import click
import pytest

from logdrive.cli.access import AccessOptions
from logdrive.cli.tables.deep_audit import audit_stream, deep_figures, print_packs
from logdrive.errors import LogdriveError, StorageError, TransientError
from logdrive.model.record_walker import walk_records
from logdrive.packs.pack import PackCodec, PackForm, make_pack
from logdrive.pipeline.audit.deep import DeepAudit, audit_packs
from logdrive.services.reader import SegmentState, ServiceReader
from logdrive.services.stored_packs import StoredPacks
from tests.logdrive.pipeline.filling import catch_up, send
from tests.logdrive.pipeline.segments import STREAM, Segment, as_records, lines, source_id
from tests.logdrive.pipeline.storing import store

TEXT = lines("a", 0, 50)


class Chunks:
    """A stream whose reads end anywhere, as those of a service do."""

    offset_unit = "bytes"

    def __init__(self, segments: list[Segment], size: int) -> None:
        self._data = {segment.name: segment.data for segment in segments}
        self._size = size

    def read_chunks(self, segment: str, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        for at in range(start, end, self._size):
            yield at, bytes(self._data[segment][at : min(at + self._size, end)])


def audited(*segments: Segment, size: int = 100) -> tuple[StoredPacks, list[tuple[int, int]]]:
    states = [SegmentState(one.name, 0, len(one.data), False, 0) for one in segments]
    shown: list[tuple[int, int]] = []
    stream = cast(ServiceReader, Chunks(list(segments), size))
    found = audit_packs(stream, states, lambda done, whole: shown.append((done, whole)))
    assert found.unread == []
    return found.packs, shown


def lying(segment: Segment, at: int) -> int:
    """Append a pack that has one event less than its header says; return its batch's offset."""
    offset = len(segment.data)
    segment.pack("liar", at, at + len(TEXT), make_pack(PackForm.TEXT, TEXT, PackCodec.ZSTD), 51)
    return offset


def test_r8_every_pack_is_opened_and_one_that_lies_is_named() -> None:
    one, other = Segment(), Segment(name=f"{STREAM}/1.#epoch.0")
    at = one.packed("a", TEXT)
    send(one, "blocks", lines("b", 0, 9))
    offset = lying(one, 1000)
    one.packed("a", TEXT, at)
    other.packed("c", TEXT)
    other.gap("c", len(TEXT), 9999, "removed")
    packs, shown = audited(one, other)
    assert (packs.opened, packs.faulty) == (4, 1)
    (fault,) = packs.faults
    assert fault[:5] == (one.name, offset, source_id("liar"), 1000, 1000 + len(TEXT))
    assert "50 events" in fault.reason
    whole = len(one.data) + len(other.data)
    assert shown == sorted(shown)
    assert shown[-1] == (whole, whole)


class Records(Chunks):
    """A stream whose offsets count records, as S2's and Iggy's do: it gives whole batches."""

    offset_unit = "records"

    def read_chunks(self, segment: str, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        half = (start + end) // 4 * 2  # each batch here is a header and a record
        whole = Segment(segment, data=self._data[segment])
        data, at = as_records(whole, start), 0
        for batch, _, stop in walk_records(segment, start, data):
            if batch.next == half:
                yield start, data[:stop]
                start, at = half, stop
        yield start, data[at:]


def test_r8_packs_are_opened_where_offsets_count_records() -> None:
    segment = Segment()
    for name in "abc":
        segment.packed(name, TEXT)
    lying(segment, 0)
    states = [SegmentState(segment.name, 0, 8, False, 0)]
    shown: list[tuple[int, int]] = []
    stream = cast(ServiceReader, Records([segment], 0))
    found = audit_packs(stream, states, lambda done, whole: shown.append((done, whole)))
    packs = found.packs
    assert (packs.opened, packs.faulty) == (4, 1)
    assert packs.faults[0].offset == 6
    assert shown == [(4, 8), (8, 8)]


@pytest.mark.parametrize("rest", [1, 7, 300])
def test_a_batch_that_is_not_whole_yet_is_left_for_later(rest: int) -> None:
    segment = Segment()
    segment.packed("a", TEXT)
    segment.packed("b", TEXT)
    del segment.data[-rest:]
    packs, _ = audited(segment)
    assert (packs.opened, packs.faulty) == (1, 0)


def test_memory_is_that_of_some_chunks_and_one_pack() -> None:
    segment, at = Segment(), 0
    text = b"line\n" * 200_000
    for _ in range(30):
        at = segment.packed("a", text, at)
    audited(Segment())  # what is imported late is not counted
    tracemalloc.start()
    packs, _ = audited(segment, size=64 * 1024)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert packs.opened == 30
    assert peak < 3 * len(text)  # of 30 in the stream


def test_a_stream_that_the_tables_were_not_read_from_is_refused(tmp_path: Path) -> None:
    segment = Segment()
    segment.packed("a", TEXT)
    lying(segment, 0)
    uri = store(tmp_path / "store", segment)
    catch_up(tmp_path / "tables", segment)
    catch_up(tmp_path / "empty")
    access = AccessOptions(None, None)
    with pytest.raises(click.BadParameter, match="give the address that they were read from"):
        audit_stream(str(tmp_path / "empty"), uri, access)
    packs = audit_stream(str(tmp_path / "tables"), uri, access).packs
    assert (packs.opened, packs.faulty) == (2, 1)


def test_another_store_whose_segments_have_the_same_names_is_refused(tmp_path: Path) -> None:
    segment, other = Segment(), Segment()
    segment.packed("a", TEXT)
    send(other, "b", lines("b", 0, 50))
    uri = store(tmp_path / "store", other)
    catch_up(tmp_path / "tables", segment)
    with pytest.raises(click.BadParameter, match="give the address that they were read from"):
        audit_stream(str(tmp_path / "tables"), uri, AccessOptions(None, None))


def test_what_a_store_can_t_read_is_named_and_passed_over(tmp_path: Path) -> None:
    segment, ends = Segment(), list[int]()
    for name in "abcd":
        segment.packed(name, bytes(random.Random(name).randbytes(5000)))
        ends.append(len(segment.data))
    lying(segment, 0)
    uri = store(tmp_path / "store", segment)
    catch_up(tmp_path / "tables", segment)
    (log,) = (tmp_path / "store").glob("log-*")
    data = bytearray(log.read_bytes())
    at = data.index(bytes(segment.data[ends[0] + 900 : ends[0] + 1000]))
    data[at] ^= 1
    log.write_bytes(data)
    found = audit_stream(str(tmp_path / "tables"), uri, AccessOptions(None, None))
    assert (found.packs.opened, found.packs.faulty, found.whole) == (4, 1, False)
    (part,) = found.unread
    assert part[:3] == (segment.name, ends[0], ends[1])
    assert "is damaged at offset" in part.reason
    assert "refused" not in part.text


class Ending(Chunks):
    """A stream that can't be read from some place on."""

    def __init__(self, segment: Segment, at: int, error: LogdriveError) -> None:
        super().__init__([segment], 100)
        self._at, self._error = at, error

    def read_chunks(self, segment: str, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        yield from super().read_chunks(segment, start, min(self._at, end))
        if end > self._at:
            raise self._error


@pytest.mark.parametrize("error", [TransientError("away"), StorageError("damaged")])
def test_behind_a_service_that_stays_away_or_the_tables_nothing_more_is_tried(
    error: LogdriveError,
) -> None:
    segment = Segment()
    segment.packed("a", TEXT)
    at = len(segment.data)
    segment.packed("b", TEXT)
    states = [SegmentState(segment.name, 0, len(segment.data), False, 0)]
    stream = cast(ServiceReader, Ending(segment, at + 10, error))
    found = audit_packs(stream, states, places=lambda _: [at])
    assert (found.packs.opened, found.whole) == (1, False)
    assert found.unread == [(segment.name, at, len(segment.data), str(error))]


def test_what_a_deep_audit_found_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    segment = Segment()
    lying(segment, 0)
    packs, _ = audited(segment)
    found = DeepAudit(packs)
    print_packs(found)
    named, last = capsys.readouterr().out.splitlines()
    assert source_id("liar") in named
    assert f"bytes 0 to {len(TEXT)}" in named
    assert last == "1 pack in the stream, 1 of them can't be opened"
    assert deep_figures(found)["faulty_packs"] == len(deep_figures(found)["pack_faults"]) == 1
    print_packs(DeepAudit())
    assert capsys.readouterr().out == "no packs in the stream\n"
    found.add_unread("logs/app/0.#epoch.0", 5, 9, StorageError("gone"))
    print_packs(found)
    _, part, last = capsys.readouterr().out.splitlines()
    assert part == "logs/app/0.#epoch.0 from 5 to 9 was not looked at, as it can't be read: gone"
    assert last.endswith("1 of them can't be opened; 1 part could not be read")
    assert deep_figures(found)["unread"][0]["end"] == 9
