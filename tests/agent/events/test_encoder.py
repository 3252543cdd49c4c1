"""Events become records that have the file's bytes, fields, and no byte twice (R1, R2, R3, R8)."""

import base64
from itertools import pairwise
from typing import Any

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from agent.config.events import EventsTable
from agent.events.cutter import LINES
from agent.events.cutting.make import make_cutter
from agent.events.encoder import EventEncoder, EventOutput
from agent.events.event import Event, FormatCounts
from agent.events.forms import FullForm, LeanForm, PairForm
from agent.events.source_events import SourceEvents
from logdrive.model.limits import RECORD_BYTES
from logdrive.model.numbers import check_in, check_of, number_of, position_of
from logdrive.model.records import REDACTED
from logdrive.packs.contents import RecordsContent, TextContent, open_run
from logdrive.packs.pack import PackCodec
from logdrive.records.chunk import TextChunk
from logdrive.records.pairs import decode_pairs
from logdrive.records.run_pack import Packing, RunPack
from logdrive.records.runs import Run
from tests.agent.v1_model import file_bytes_of

PACKING = Packing(PackCodec.DEFLATE, 1)
COMMON = {"host": {"name": "h"}, "fields": {"service": "web"}}
OUTPUTS = {
    "packed": EventOutput(LeanForm(), PACKING, "pack", text=True),
    "full_packs": EventOutput(FullForm(COMMON, "/a%d", "0f"), PACKING, "pack"),
    "block": EventOutput(LeanForm(), None, "block"),
    "full": EventOutput(FullForm(COMMON, "/a%d", "0f"), None, "block"),
    "beats": EventOutput(FullForm({"@metadata": {}} | COMMON, "/a%d", "0f"), None, "nothing"),
    "pairs": EventOutput(PairForm([("host", "h"), ("service", "web")]), None, "nothing"),
}
READ_MS = 1_700_000_000_123


class Steps:
    """A format and a processor in one, for tests."""

    name = "test"

    def __init__(self, fields: dict[str, Any], drop: bytes = b"") -> None:
        self.counts = FormatCounts()
        self.fields, self.drop = fields, drop.decode()
        self.name, self.counts = "test", FormatCounts()

    def parse_events(self, events: list[Event]) -> None:
        """Give each event the fields."""
        for event in events:
            event.fields = dict(self.fields)

    def process_events(self, events: list[Event]) -> list[Event]:
        """Drop what has the text."""
        return [event for event in events if not self.drop or self.drop not in event.message]


def encoder(form: str, fields: dict[str, Any] | None = None, drop: bytes = b"") -> EventEncoder:
    steps = Steps(fields or {}, drop)
    table = EventsTable()
    return EventEncoder(SourceEvents(table, steps, [steps]), LINES, OUTPUTS[form])


def runs_of(encoding: EventEncoder, data: bytes, start: int = 0) -> list[Run]:
    """Return the runs of *data*, which begins at *start* in its file."""
    head = bytes(start)
    chunk = TextChunk(start, head + data, start, start + len(data))
    runs, previous = list[Run](), number_of(start, head[-256:])
    while not runs or runs[-1].position < start + len(data):
        at = position_of(previous)
        rest = TextChunk(at, chunk.data, at, chunk.end)
        runs += encoding.encode_chunk(rest, previous, READ_MS)
        previous = runs[-1].number
    return runs


def records_of(run: Run) -> list[dict[str, Any]]:
    """Return the JSON records of *run*; a pack must hold what the run says."""
    if not isinstance(run.records, RunPack):
        return [orjson.loads(record) for record in run.records]
    content = open_run(
        run.records.pack,
        previous=position_of(run.previous),
        position=run.position,
        events=run.events,
        skipped=run.skipped,
    )
    assert isinstance(content, RecordsContent)
    return [orjson.loads(record) for record in content.records]


def exact(record: dict[str, Any]) -> bytes:
    """Return the file's bytes in a JSON record."""
    event = record.get("event", {})
    eol = record["log"].get("eol", "\n").encode()
    if "original_base64" in event:
        return base64.b64decode(event["original_base64"]) + bytes(eol)
    return str(event.get("original", record["message"])).encode() + bytes(eol)


def pieces(run: Run) -> list[tuple[int, bytes]]:
    """Return the events of *run*: where each is, and its bytes."""
    if isinstance(run.records, RunPack) and run.records.form.in_header == "text":
        content = open_run(
            run.records.pack,
            previous=position_of(run.previous),
            position=run.position,
            events=run.events,
            skipped=run.skipped,
        )
        assert isinstance(content, TextContent)
        assert content.lengths
        at, used, found = position_of(run.previous), 0, []
        for length in content.lengths:
            if length > 0:
                found.append((at, content.text[used : used + length]))
                used += length
            at += abs(length)
        return found
    if run.records and hasattr(run.records, "encode_frames"):
        pairs = [decode_pairs(record) for record in run.records]
        return [(int(one["offset"]), file_bytes_of(one)) for one in pairs]
    return [
        (record["log"]["offset"], exact(record))
        for record in records_of(run)
        if "lengths" not in record
    ]


lines = st.lists(
    st.sampled_from(
        [b"\n", b"\r\n", b"keep\n", b"drop this\n", b"\xff\n", "ä€\n".encode(), b"\0" * 9, b'"\\']
    )
).map(b"".join)


@pytest.mark.parametrize("form", OUTPUTS)
@settings(max_examples=60)
@given(data=lines.filter(bool), start=st.sampled_from([0, 100, 5000]), fields=st.booleans())
@example(data=b"drop\ndrop\n", start=5000, fields=True)
@example(data=b"keep\n" * 3000, start=0, fields=True)
@example(data=b"\0" * 300_000 + b"\ndrop", start=7, fields=True)
def test_what_is_kept_is_the_file_s_bytes_and_the_rest_is_counted_as_skipped(
    form: str, data: bytes, start: int, fields: bool
) -> None:
    runs = runs_of(encoder(form, {"a": {"b": 1}} if fields else {}, b"drop"), data, start)
    expected, at = [], start
    for line in data.splitlines(keepends=True) if b"\r" not in data else _lines(data):
        if b"drop" not in line:
            expected.append((at, line))
        at += len(line)
    found = [piece for run in runs for piece in pieces(run)]
    assert b"".join(data for _, data in found) == b"".join(data for _, data in expected)
    assert {at for at, _ in expected} <= {at for at, _ in found}
    head = bytes(start) + data
    assert (position_of(runs[0].previous), runs[-1].position) == (start, len(head))
    assert all(one.number == other.previous for one, other in pairwise(runs))
    for run in runs:
        kept = sum(len(piece) for _, piece in pieces(run))
        assert run.skipped == run.position - position_of(run.previous) - kept
        assert check_in(run.number) == check_of(head[: run.position][-256:])
        assert run.events == len(pieces(run))
        size = sum(8 + len(payload) for payload in run.records)
        assert size <= run.size if isinstance(run.records, RunPack) else size == run.size
        assert all(len(payload) <= RECORD_BYTES for payload in run.records)


def _lines(data: bytes) -> list[bytes]:
    *whole, rest = data.split(b"\n")
    return [line + b"\n" for line in whole] + ([rest] if rest else [])


def test_fields_stand_at_the_top_of_a_lean_record() -> None:
    (run,) = runs_of(encoder("packed", {"a": {"b": 1}}), b"one\n", 5)
    assert records_of(run) == [{"log": {"offset": 5, "end": 9}, "message": "one", "a": {"b": 1}}]
    (run,) = runs_of(encoder("beats", {"a": {"b": 1}}), b"one\n", 5)
    assert records_of(run) == [
        {
            "@timestamp": "2023-11-14T22:13:20.123Z",
            "@metadata": {},
            "host": {"name": "h"},
            "fields": {"service": "web"},
            "log": {"file": {"path": "/a%d"}, "origin": "0f", "offset": 5, "end": 9},
            "message": "one",
            "a": {"b": 1},
        }
    ]


def test_pairs_have_fields_with_dots() -> None:
    fields = {
        "a": {"b": 1, "c": {"d": "x"}},
        "service": "mine",
        "line": "mine",
        "l": [1],
        "message": "mine",
        "log": {"level": "info", "offset": 7},
    }
    (run,) = runs_of(encoder("pairs", fields), b"one\n", 5)
    assert decode_pairs(run.records[0]) == {
        "line": "one",
        "offset": "5",
        "host": "h",
        "service": "web",
        "a.b": "1",
        "a.c.d": "x",
        "fields.service": "mine",
        "fields.line": "mine",
        "l": "[1]",
        "log.level": "info",
        "fields.message": "mine",
        "fields.log.offset": "7",
    }


def test_no_field_can_say_anything_about_its_record_s_place_or_bytes() -> None:
    fields = {
        "message": "other",
        "host": "other",
        "log": {"offset": 0, "lines": 7, "level": "info"},
        "event": {"original": "other", "kind": "alert"},
        "fields": {"service": "other", "x": 1},
        "tags": ["other"],
        "@timestamp": "2026-01-02T03:04:05.6Z",
    }
    for form in ("packed", "beats"):
        (run,) = runs_of(encoder(form, fields), b"one\n")
        (record,) = records_of(run)
        assert record["message"] == "one"
        assert record["@timestamp"] == "2026-01-02T03:04:05.6Z"
        assert record["log"]["offset"] == 0
        assert (record["log"]["end"], record["log"]["level"]) == (4, "info")
        assert record["event"] == {"kind": "alert"}
        assert record["fields"]["message"] == record["fields"]["host"] == "other"
        assert record["fields"]["log"] == {"offset": 0, "lines": 7}
        assert record["fields"]["event"] == {"original": "other"}
        assert record["fields"]["tags"] == ["other"]
        assert record["fields"]["service"] == ("other" if form == "packed" else "web")
        assert "host" not in record or record["host"] == {"name": "h"}


def test_an_event_that_was_redacted_does_not_carry_its_bytes() -> None:
    class Redact(Steps):
        def process_events(self, events: list[Event]) -> list[Event]:
            for event in events:
                event.message, event.flags = "***", (REDACTED,)
            return events

    for form, output in OUTPUTS.items():
        steps = Redact({})
        encoding = EventEncoder(SourceEvents(EventsTable(), None, [steps]), LINES, output)
        (run,) = runs_of(encoding, b"secret \xff\n")
        content = run.records.content if isinstance(run.records, RunPack) else run.records[0]
        assert b"secret" not in content, form
        assert base64.b64encode(b"secret")[:6] not in content, form
        assert REDACTED.encode() in content, form


@pytest.mark.parametrize("form", OUTPUTS)
@pytest.mark.parametrize(
    "fields",
    [{"big": "x" * RECORD_BYTES}, {str(n): n for n in range(100_000)}, {"no": object()}],
    ids=["long", "many", "no JSON"],
)
def test_fields_that_fit_no_record_are_left_out_and_the_line_is_kept(
    form: str, fields: dict[str, Any]
) -> None:
    data = b"one\n" + b"\x01" * 200_000 + b"\xff\n"
    runs = runs_of(encoder(form, fields), data)
    found = [piece for run in runs for piece in pieces(run)]
    assert b"".join(piece for _, piece in found) == data
    if form != "pairs" and "1" not in fields:
        assert records_of(runs[0])[0]["error"]["type"] == "limit"


@pytest.mark.parametrize(
    ("encoding", "line", "message"),
    [
        ("shift_jis", "\u4e00\u3064".encode("shift_jis") + b"\xff", "\u4e00\u3064\ufffd"),
        ("utf-8-sig", b"\xef\xbb\xbfa\xff", "a\ufffd"),
    ],
)
def test_a_line_with_invalid_bytes_alone_has_the_text_of_its_encoding(
    encoding: str, line: bytes, message: str
) -> None:
    table = EventsTable(encoding=encoding)
    encoding_events = EventEncoder(SourceEvents(table), make_cutter(table), OUTPUTS["packed"])
    (run,) = runs_of(encoding_events, line + b"\n")

    assert isinstance(run.records, RunPack)
    (record,) = map(orjson.loads, run.records.records)
    assert record["message"] == message
    assert base64.b64decode(record["event"]["original_base64"]) == line
