"""Records of events become rows with their fields and exact bytes, and what was left out is known
(R1, R2, A2).
"""

from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.config.events import EventsTable
from agent.config.formats import FormatTable
from agent.config.journald import JournaldTable
from agent.events.cutter import LINES
from agent.events.encoder import EventEncoder, EventOutput
from agent.events.event import Event
from agent.events.formats.make import make_format
from agent.events.forms import FullForm, LeanForm, PairForm
from agent.events.source_events import SourceEvents
from agent.inputs.journald.boot import ENTRIES, EntryChunk
from agent.inputs.journald.entries import BootId, JournalEntry
from logdrive.model.numbers import position_of
from logdrive.model.records import REDACTED
from logdrive.packs.pack import PackCodec
from logdrive.pipeline.bronze.rebuild import rebuild
from logdrive.pipeline.decode.schema import CHANGED, MALFORMED
from logdrive.records.chunk import TextChunk
from logdrive.records.pairs import decode_pairs
from logdrive.records.run_pack import Packing, RunPack
from logdrive.records.runs import Run
from tests.logdrive.pipeline.decode.test_packs import decoded
from tests.logdrive.pipeline.segments import Segment

PACKING = Packing(PackCodec.DEFLATE, 1)
FULL = FullForm({"host": {"name": "h"}, "fields": {"service": "web"}}, "/a.log", "0f" * 16)
OUTPUTS = {
    "packed": EventOutput(LeanForm(), PACKING, "pack", text=True),
    "full_packs": EventOutput(FULL, PACKING, "pack"),
    "block": EventOutput(LeanForm(), None, "block"),
    "full": EventOutput(FULL, None, "block"),
}
MIXED = (
    b'{"level":"info","n":123456789012345678901234567890}\n'
    b"plain\r\n"
    b"2016-10-06T00:17:09.669794202Z stdout F in a container\n"
    b"\xff{}\n"
    b"a=1 b=2\n"
    b"no end"
)


class Drop:
    """Drops the events that have a text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def process_events(self, events: list[Event]) -> list[Event]:
        """Return the others."""
        return [event for event in events if self.text not in event.message]


class Redact:
    """Changes the text of each event to one of another length."""

    def process_events(self, events: list[Event]) -> list[Event]:
        """Return all of them."""
        for event in events:
            event.message, event.original = "***", None
            event.flags = (*event.flags, REDACTED)
        return events


def encoder(form: str, *processors: Any) -> EventEncoder:
    auto = make_format(FormatTable(type="auto"), lambda: None, lambda _: None)
    return EventEncoder(SourceEvents(EventsTable(), auto, processors), LINES, OUTPUTS[form])


def store(segment: Segment, run: Run) -> None:
    """Append *run* to *segment*, as a receiver does."""
    more: dict[str, Any] = {"skipped": run.skipped}
    if isinstance(run.records, RunPack):
        more["form"] = run.records.form.in_header
    previous, records = position_of(run.previous), list(run.records)
    segment.data_batch("a", previous, run.position, records, run.events, **more)


def stored(form: str, data: bytes, *processors: Any) -> Segment:
    segment = Segment()
    chunk = TextChunk.from_whole_file(data)
    for run in encoder(form, *processors).encode_chunk(chunk, 0, 1_700_000_000_000):
        store(segment, run)
    return segment


@pytest.mark.parametrize("form", OUTPUTS)
def test_rows_have_fields_and_give_the_file_s_bytes(form: str) -> None:
    table, (batch,) = decoded(stored(form, MIXED))
    assert table["flag"].to_pylist() == [None] * 6
    assert b"".join(piece for _, piece in rebuild(table)) == MIXED
    assert (batch.skipped, batch.dropped, batch.rows) == (0, [], batch.events)
    fields = [orjson.loads(text or "{}") for text in table["fields"].to_pylist()]
    own = [{key: row.get(key) for key in ("level", "stream", "a") if key in row} for row in fields]
    assert own == [{"level": "info"}, {}, {"stream": "stdout"}, {}, {"a": "1"}, {}]
    assert '"n":123456789012345678901234567890' in table["fields"][0].as_py()
    assert table["message"].to_pylist()[2] == "in a container"
    assert set(table["form"].to_pylist()) == {"full" if form.startswith("full") else "lean"}
    if not form.startswith("full"):
        assert [str(time)[:26] for time in table["time"].to_pylist() if time is not None] == [
            "2016-10-06 00:17:09.669794"
        ]


@pytest.mark.parametrize("form", OUTPUTS)
@settings(max_examples=40)
@given(st.lists(st.sampled_from([b"drop\n", b'{"a":1}\n', b"drop a=1 b=1\r\n", b"\xfe\n"])))
def test_what_was_left_out_is_known_to_the_byte(form: str, lines: list[bytes]) -> None:
    data = b"".join(lines)
    if not data:
        return
    table, batches = decoded(stored(form, data, Drop("drop")))
    kept, at, dropped = b"", 0, 0
    positions = set[int]()
    for line in lines:
        if b"drop" in line:
            dropped += len(line)
            positions |= set(range(at, at + len(line)))
        else:
            kept += line
        at += len(line)
    assert b"".join(piece for _, piece in rebuild(table)) == kept
    found = [interval for batch in batches for interval in batch.dropped]
    assert {n for start, end in found for n in range(start, end)} == positions
    assert sum(batch.skipped for batch in batches) == dropped
    assert table["flag"].to_pylist() == [None] * len(table)


@pytest.mark.parametrize("form", OUTPUTS)
def test_a_redacted_row_says_so_and_is_not_rebuilt(form: str) -> None:
    table, _ = decoded(stored(form, b"one\nsecret\n", Redact()))
    assert table["flag"].to_pylist() == ["redacted"] * 2
    assert table["start"].to_pylist() == [0, 4]
    assert table["end"].to_pylist() == [4, 11]
    assert table["message"].to_pylist() == ["***"] * 2
    with pytest.raises(ValueError, match="redacted"):
        list(rebuild(table))


def lean(**values: Any) -> bytes:
    return orjson.dumps({"log": {"offset": 0, "end": 8}, "message": "abc", **values})


def test_a_text_in_another_encoding_gives_the_file_s_bytes() -> None:
    segment = Segment()
    log = {"offset": 0, "end": 8, "encoding": "utf-16-le", "eol": "\n\0"}
    segment.data_batch("a", 0, 8, [lean(log=log)], 1)
    table, _ = decoded(segment)
    assert table["flag"].to_pylist() == [None]
    assert list(rebuild(table)) == [(0, b"a\0b\0c\0\n\0")]


@pytest.mark.parametrize(
    ("record", "flag"),
    [
        (lean(), CHANGED),
        (lean(event={"original": "other length"}), MALFORMED),
        (lean(event={"original_base64": "%%%"}), MALFORMED),
        (lean(log={"offset": 0, "end": 8, "encoding": "no such"}), MALFORMED),
        (lean(log={"offset": 0, "end": 8, "encoding": "punycode"}), MALFORMED),
        (lean(log={"offset": 0, "end": 8, "encoding": "zlib"}), MALFORMED),
        (lean(log={"offset": 0, "end": 8, "encoding": "ascii"}, message="ä"), MALFORMED),
        (lean(log={"offset": 8, "end": 8, "flags": ["redacted"]}), MALFORMED),
    ],
)
def test_a_record_whose_bytes_are_not_those_of_its_place_is_told(record: bytes, flag: str) -> None:
    segment = Segment()
    segment.data_batch("a", 0, 8, [record], 1)
    table, _ = decoded(segment)
    assert table["flag"].to_pylist() == [flag]


@pytest.mark.parametrize("form", ["beats", "pairs"])
def test_events_that_came_by_plain_lumberjack_have_fields_and_the_file_s_bytes(form: str) -> None:
    auto = make_format(FormatTable(type="auto"), lambda: None, lambda _: None)
    pairs = PairForm([("host", "h"), ("file", "/a.log"), ("log.origin", "0f" * 16)])
    output = EventOutput(FULL if form == "beats" else pairs, None, "nothing")
    encoding = EventEncoder(SourceEvents(EventsTable(), auto, [Drop("plain")]), LINES, output)
    hostile = b'{"message":"m","line":"l","offset":"9","file":"f","log.origin":"o","log":"x"}\n'
    data = MIXED + b"\n" + hostile
    (run,) = encoding.encode_chunk(TextChunk.from_whole_file(data), 0, 1_700_000_000_000)
    payloads = list(run.records)
    if form == "pairs":
        payloads = [orjson.dumps(decode_pairs(payload)) for payload in payloads]
    segment = Segment()
    segment.foreign("agent", payloads)
    table, _ = decoded(segment)
    assert table["flag"].to_pylist() == [None] * 6
    assert set(table["path"].to_pylist()) == {"/a.log"}
    assert set(table["host"].to_pylist()) == {"h"}
    kept = data.replace(b"plain\r\n", b"")
    assert b"".join(piece for _, piece in rebuild(table)) == kept
    fields = [orjson.loads(text or "{}") for text in table["fields"].to_pylist()]
    assert (fields[0]["level"], fields[1]["stream"], fields[3]["a"]) == ("info", "stdout", "1")


@pytest.mark.parametrize("form", OUTPUTS)
def test_entries_of_a_journal_take_one_position_each_and_are_not_called_changed__G7(
    form: str,
) -> None:
    boot, entries = BootId("b" * 32, "a" * 32), list[JournalEntry]()
    for number, message in ((7, b"one"), (8, b"two\nlines"), (9, b"\xff\x00"), (10, b"")):
        fields = {b"MESSAGE": [message], b"_PID": [b"1"], b"__REALTIME_TIMESTAMP": [b"1700000000"]}
        entries.append(JournalEntry(boot, number, fields, cut=False, size=100))
    chunk = EntryChunk(7, b"", 0, 4, entries=tuple(entries))
    journal = EventEncoder(SourceEvents(JournaldTable(), None, ()), ENTRIES, OUTPUTS[form])
    segment = Segment()
    for run in journal.encode_chunk(chunk, 7 << 16, 1_700_000_000_000):
        store(segment, run)
    table, (batch,) = decoded(segment)
    assert table["flag"].to_pylist() == [None] * 4
    assert list(zip(table["start"].to_pylist(), table["end"].to_pylist(), strict=True)) == [
        (number, number + 1) for number in range(7, 11)
    ]
    assert table["message"].to_pylist()[:2] == ["one", "two\nlines"]
    assert table["original"].to_pylist()[2] == b"\xff\x00"
    assert orjson.loads(table["fields"][0].as_py())["journald"] == {"_PID": "1"}
    assert (batch.skipped, batch.dropped) == (0, [])
