"""Sources of any `Readable`: here bytes in memory, without handle or inode."""

from itertools import pairwise
from uuid import UUID

import pytest

from agent.config.files import InputTable
from agent.delivery.reader import SourceReader
from agent.events.cutter import LINES, EventCutter
from agent.sources.identity import FirstLine, Identity
from agent.sources.incarnation_search import Counting, StoredNumber
from agent.sources.place import FileLocation
from agent.sources.readable import DueGap, InputKind, SourceTruncatedError
from agent.sources.registration import NextStep
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.host.clock import SystemClock
from logdrive.model.limits import TAIL_BYTES
from logdrive.model.numbers import ABSENT, check_in, check_of, number_of, position_of
from logdrive.model.records import DATA, END, GAP
from logdrive.records.blocks import BlockEncoder
from logdrive.records.chunk import TextChunk
from logdrive.records.runs import ELSEWHERE, NOT_WANTED, TRUNCATED, GapOrEndMark, Run

TEXT = b"one\ntwo\nthree\n"
STORE = UUID(int=7)


class Bytes:
    """A `Readable` of whole lines in memory, returned one at a time, until they are *lost*."""

    input_kind = InputKind.SPOOL
    is_unique = False

    def __init__(self, text: bytes) -> None:
        self._text = text
        self.place = FileLocation("pipe", "pipe", "", 0, 0, 0)
        self.settings = InputTable(paths=["/"])
        self.cutter: EventCutter = LINES
        self.start = self.position = self.modified_ns = 0
        self.prefix = b""
        self.seen = len(text)
        self.first_line = FirstLine.find_in(text)
        self.retired = self.lost = False
        self.skip = (-1, -1)  # a stretch that is not read

    @property
    def unread(self) -> int:
        return self.seen - self.position

    @property
    def has_lines(self) -> bool:
        return self.unread > 0

    @property
    def last_number(self) -> int:
        return self.number_at(self.seen)

    def gap_at(self, position: int) -> DueGap | None:
        if position == 0 < self.start:
            return DueGap(self.start, GapOrEndMark(NOT_WANTED))
        return DueGap(self.skip[1], GapOrEndMark("lost")) if position == self.skip[0] else None

    def set_start(self, position: int) -> None:
        self.start = position

    def resume_from(self, number: int) -> None:
        self.position = position_of(number)

    def matches_number(self, number: int) -> bool:
        before = self._text[: position_of(number)][-TAIL_BYTES:]
        return position_of(number) <= self.seen and check_in(number) in (0, check_of(before))

    def number_at(self, position: int) -> int:
        return number_of(position, self._text[:position][-TAIL_BYTES:])

    def read_head(self, size: int) -> bytes:
        return self._text[:size]

    def read_lines(self, now: float, *, limit: int, longest: int) -> TextChunk | None:
        if self.lost:
            raise SourceTruncatedError
        begin, self.position = self.position, self._text.index(b"\n", self.position) + 1
        return TextChunk(begin, self._text, begin, self.position)

    def give_back(self, chunk: TextChunk, position: int) -> None:
        self.position = position

    def retire(self) -> None:
        self.retired = True


class BytesInput:
    """An input that ends a source whose bytes are lost, as the input of files does."""

    def open_source(self, source: Source) -> None:
        pass

    def verify_source(self, source: Source) -> bool:
        return True

    def on_read_failed(self, source: Source, error: SourceTruncatedError | OSError) -> None:
        source.end_generation(GapOrEndMark(TRUNCATED), 0)


class NoInputs:
    def settings_for(self, path: str) -> None:
        return None


def begun(text: bytes, number: int) -> tuple[Bytes, Source, SourceReader]:
    """Return a source of *text* for which the store has *number*."""
    readable = Bytes(text)
    assert readable.first_line is not None
    identity = Identity("a", "h", "", 0, 0, readable.first_line.text)
    registry = SourceRegistry("h", "a", NoInputs())
    source = registry.add_generation(readable, identity, Counting.KNOWN)
    ((count, _),) = source.next_registrations()
    assert source.on_answer(StoredNumber(count, number, STORE), 0) is NextStep.GO_ON
    return (
        readable,
        source,
        SourceReader(BytesInput(), SystemClock(), lambda source: BlockEncoder()),
    )


def runs(producer: SourceReader, source: Source) -> list[Run]:
    return list(iter(lambda: producer.read_next_run(source), None))


def test_a_source_that_is_no_file_is_read_to_its_end__D3() -> None:
    _, source, producer = begun(TEXT, ABSENT)
    sent = runs(producer, source)
    assert [(run.kind, run.previous, run.position) for run in sent] == [
        (DATA, 0, 4),
        (DATA, number_of(4, b"one\n"), 8),
        (DATA, number_of(8, b"one\ntwo\n"), 14),
    ]
    assert sum(run.events for run in sent) == 3
    for run in sent:
        assert source.on_acknowledged(source.epoch, run, 0)
    assert not source.has_more


def test_a_source_that_is_no_file_goes_on_from_the_number_that_the_store_has__D3() -> None:
    _, source, producer = begun(TEXT, number_of(4, b"one\n"))
    assert [run.position for run in runs(producer, source)] == [8, 14]


def test_lost_bytes_become_a_gap_up_to_the_last_byte_seen_then_an_end__P4() -> None:
    readable, source, producer = begun(TEXT, number_of(4, b"one\n"))
    readable.lost = True
    assert [(run.kind, run.position) for run in runs(producer, source)] == [(GAP, 14), (END, 14)]


def test_bytes_that_are_not_sent_are_a_gap_in_the_middle_and_the_source_goes_on__P4() -> None:
    readable, source, producer = begun(TEXT, ABSENT)
    readable.skip = (4, 8)
    sent = runs(producer, source)
    assert [(run.kind, run.position) for run in sent] == [(DATA, 4), (GAP, 8), (DATA, 14)]
    assert sent[1].mark == GapOrEndMark("lost")
    assert all(one.number == two.previous for one, two in pairwise(sent))
    assert source.ended is None


@pytest.mark.parametrize("drops", ["refused", "skipped", "given back"])
def test_what_another_store_has_is_not_sent_again_whatever_is_dropped_and_read_again__D5(
    drops: str,
) -> None:
    _, source, producer = begun(TEXT, number_of(8, b"one\ntwo\n"))
    source.on_disconnected()
    source.next_registrations()
    source.on_answer(StoredNumber(0, ABSENT, UUID(int=8)), 0)
    source.add_runs([Run(DATA, source.cursor, number_of(14, TEXT), [b"{}"], 1, 10, 0)])
    if drops == "refused":
        source.on_refused("no", 60.0)
    elif drops == "skipped":
        source.skip(0)
    else:
        source.drop_unsent_runs()
    sent = runs(producer, source)
    assert [(run.kind, run.position) for run in sent] == [(GAP, 8), (DATA, 14)]
    assert sent[0].mark == GapOrEndMark(ELSEWHERE, store=STORE)
