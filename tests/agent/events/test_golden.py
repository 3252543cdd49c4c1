"""Bytes of events' records as they were first sent, which all readers know (R1, R8)."""

import zlib

from agent.events.event import Event
from agent.events.forms import FullForm, LeanForm, PairForm
from logdrive.model.records import REDACTED
from logdrive.records.dropped import make_dropped_run
from logdrive.records.run_pack import encode_parts

READ_MS = 1_700_000_000_123
PLAIN = Event(7, 12, "text", fields={"a": {"b": 1}, "message": "x"})
WHOLE = Event(
    7,
    20,
    "said",
    "\r\n",
    b"2026 said",
    flags=("partial",),
    fields={"stream": "stdout", "@timestamp": "2026-01-02T03:04:05.6Z", "log": {"level": "info"}},
    left_out=2,
)
CHANGED = Event(7, 12, "***", flags=(REDACTED,), time_ms=1_767_323_045_600)


def test_lean_records() -> None:
    form = LeanForm()
    assert form.encode_event(PLAIN, READ_MS) == (
        b'{"log":{"offset":7,"end":12},"message":"text","fields":{"message":"x"},"a":{"b":1}}'
    )
    assert form.encode_event(WHOLE, READ_MS) == (
        b'{"log":{"offset":7,"end":18,"level":"info","eol":"\\r\\n","flags":["partial"]},'
        b'"message":"said","event":{"original":"2026 said"},'
        b'"@timestamp":"2026-01-02T03:04:05.6Z","stream":"stdout"}'
    )
    assert form.encode_event(CHANGED, READ_MS) == (
        b'{"log":{"offset":7,"end":12,"flags":["redacted"]},"message":"***",'
        b'"@timestamp":"2026-01-02T03:04:05.600Z"}'
    )


def test_full_records() -> None:
    form = FullForm({"host": {"name": "h"}, "fields": {"service": "web"}}, "/a.log", "0f")
    assert form.encode_event(Event(7, 12, "text", fields={"a": 1}), READ_MS) == (
        b'{"@timestamp":"2023-11-14T22:13:20.123Z","host":{"name":"h"},'
        b'"fields":{"service":"web"},"log":{"file":{"path":"/a.log"},"origin":"0f","offset":7,'
        b'"end":12},"message":"text","a":1}'
    )
    assert form.encode_event(PLAIN, READ_MS) == (
        b'{"@timestamp":"2023-11-14T22:13:20.123Z","host":{"name":"h"},'
        b'"fields":{"message":"x","service":"web"},"log":{"file":{"path":"/a.log"},'
        b'"origin":"0f","offset":7,"end":12},"message":"text","a":{"b":1}}'
    )


def test_pairs() -> None:
    form = PairForm([("host", "h"), ("file", "/a.log")])
    pairs = [
        (b"line", b"said"),
        (b"offset", b"7"),
        (b"host", b"h"),
        (b"file", b"/a.log"),
        (b"@timestamp", b"2026-01-02T03:04:05.6Z"),
        (b"log.eol", b"\r\n"),
        (b"log.flags", b"partial"),
        (b"event.original", b"2026 said"),
        (b"stream", b"stdout"),
        (b"log.level", b"info"),
    ]
    texts = b"".join(len(text).to_bytes(4, "big") + text for pair in pairs for text in pair)
    assert form.encode_event(WHOLE, READ_MS) == len(pairs).to_bytes(4, "big") + texts


def test_a_run_of_which_nothing_is_left() -> None:
    run = make_dropped_run(5 << 16 | 1, 15 << 16 | 2, READ_MS, "pack")
    content = bytes.fromhex("00000001 fffffff6")
    head = bytes.fromhex("02 00 00000008") + zlib.crc32(content).to_bytes(4, "big")
    frame = b"2Z" + bytes.fromhex("00000003 00000012") + head + content
    assert b"".join(encode_parts(run.encode_frames(3))) == frame
    assert (run.events, run.skipped, len(run.records)) == (0, 10, 1)
    run = make_dropped_run(5 << 16 | 1, 15 << 16 | 2, READ_MS, "block")
    assert list(run.records) == [
        b'{"log":{"offset":5,"end":15,"lines":0},"message":"","lengths":[-10]}'
    ]
    assert list(make_dropped_run(5 << 16 | 1, 15 << 16 | 2, READ_MS, "nothing").records) == []
