"""The journal's export format, however it is split, and whatever lengths it names."""

from collections.abc import Sequence

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.inputs.journald.entries import BootId, entry_of, event_of
from agent.inputs.journald.export import (
    ENTRY_BYTES,
    FIELD_BYTES,
    MESSAGE_BYTES,
    ExportParser,
    Fields,
)
from logdrive.errors import ProtocolError

CURSOR = b"s=" + b"a" * 32 + b";i=1f;b=" + b"b" * 32 + b";m=1;t=1;x=1"


def exported(entry: Sequence[tuple[bytes, bytes]]) -> bytes:
    """Return an entry as journalctl writes it."""
    return b"".join(
        name + b"=" + value + b"\n"
        if value.isascii() and b"\n" not in value
        else name + b"\n" + len(value).to_bytes(8, "little") + value + b"\n"
        for name, value in entry
    ) + (b"\n")


def parsed(*pieces: bytes) -> list[Fields]:
    parser = ExportParser()
    return [entry.fields for piece in pieces for entry in parser.receive_data(piece)]


names = st.text("ABC_", min_size=1, max_size=3).map(str.encode)
entries = st.lists(st.tuples(names, st.binary(max_size=40)), min_size=1, max_size=5)


@settings(max_examples=100)
@given(st.lists(entries, max_size=4), st.integers(1, 50))
def test_any_split_gives_the_same_entries(
    written: list[list[tuple[bytes, bytes]]], step: int
) -> None:
    stream = b"".join(map(exported, written))
    expected = list[Fields]()
    for entry in written:
        fields: Fields = {}
        for name, value in entry:
            fields.setdefault(name, []).append(value)
        expected.append(fields)
    assert parsed(stream) == expected
    assert parsed(*(stream[at : at + step] for at in range(0, len(stream), step))) == expected


@pytest.mark.parametrize("as_text", [True, False])
@pytest.mark.parametrize("step", [1 << 20, 100_000])
def test_long_fields_are_cut_and_what_follows_is_whole(step: int, *, as_text: bool) -> None:
    long = b"x" * 700_000 if as_text else b"\n" * 700_000
    stream = exported([(b"COREDUMP", long), (b"MESSAGE", long), (b"A", b"1")])
    stream += exported([(b"MESSAGE", b"next")])
    parser, found = ExportParser(), []
    for at in range(0, len(stream), step):
        found += parser.receive_data(stream[at : at + step])
        assert len(parser._buffer) < MESSAGE_BYTES + step + 2000
    first, second = found
    assert first.cut
    assert first.fields[b"COREDUMP"] == [long[:FIELD_BYTES]]
    assert first.fields[b"MESSAGE"] == [long[:MESSAGE_BYTES]]
    assert first.fields[b"A"] == [b"1"]
    assert (second.fields, second.cut) == ({b"MESSAGE": [b"next"]}, False)


def test_fields_of_an_entry_are_bounded_together() -> None:
    stream = exported([(b"F%d" % n, b"x" * FIELD_BYTES) for n in range(100)] + [(b"MESSAGE", b"m")])
    (entry,) = ExportParser().receive_data(stream)
    assert sum(len(value) for values in entry.fields.values() for value in values) <= ENTRY_BYTES
    assert entry.cut
    assert entry.fields[b"MESSAGE"] == [b"m"]


@pytest.mark.parametrize("name", [b"F%d", b"MESSAGE"])
@pytest.mark.parametrize("value", [b"", b"x" * 100_000])
def test_fields_without_number_take_no_memory_without_end(name: bytes, value: bytes) -> None:
    parser = ExportParser()
    for n in range(30_000 if not value else 300):
        assert not parser.receive_data((name % n if b"%" in name else name) + b"=" + value + b"\n")
    (entry,) = parser.receive_data(b"\n")
    assert entry.cut
    assert sum(len(values) for values in entry.fields.values()) < 20_000
    assert sum(len(value) for values in entry.fields.values() for value in values) <= ENTRY_BYTES


def test_of_many_long_fields_the_longest_are_dropped_with_one_look_at_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    controls = [(b"F%d" % n, b"\x01" * (200 + n % 7)) for n in range(1000)]
    (parsed_entry,) = ExportParser().receive_data(exported([(b"__CURSOR", CURSOR), *controls]))
    entry, dumps, looks = entry_of(parsed_entry), orjson.dumps, 0

    def counted(value: object) -> bytes:
        nonlocal looks
        looks += 1
        return dumps(value)

    monkeypatch.setattr(orjson, "dumps", counted)
    event = event_of(entry)
    assert looks < 2 * len(controls)
    assert event.flags == ("entry", "truncated")
    kept = event.fields["journald"]
    assert 300_000 < len(dumps(kept)) <= 384 * 1024
    assert min(len(value) for _, value in controls) == min(map(len, kept.values()))
    assert max(map(len, kept.values())) < 206


@settings(max_examples=100)
@given(st.binary(max_size=200))
def test_garbage_raises_protocol_errors_only(data: bytes) -> None:
    try:
        for entry in ExportParser().receive_data(data):
            event_of(entry_of(entry))
    except ProtocolError:
        pass


def test_an_entry_is_an_event_at_its_number_with_all_its_fields() -> None:
    (entry,) = ExportParser().receive_data(
        exported(
            [
                (b"__CURSOR", CURSOR),
                (b"__REALTIME_TIMESTAMP", b"1700000000123456"),
                (b"_SYSTEMD_UNIT", b"app.service"),
                (b"TWICE", b"1"),
                (b"TWICE", b"2"),
                (b"BINARY", b"\xff\x00"),
                (b"MESSAGE", b"two\nlines"),
            ]
        )
    )
    placed = entry_of(entry)
    assert (placed.boot, placed.number) == (BootId("b" * 32, "a" * 32), 0x1F)
    event = event_of(placed)
    assert (event.start, event.end, event.message) == (0x1F, 0x20, "two\nlines")
    assert event.time_ms == 1_700_000_000_123
    assert event.flags == ("entry",)
    assert event.fields == {
        "journald": {
            "_SYSTEMD_UNIT": "app.service",
            "TWICE": ["1", "2"],
            "BINARY": {"base64": "/wA="},
        }
    }
