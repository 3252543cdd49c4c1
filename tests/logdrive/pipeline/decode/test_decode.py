"""Rules R1, R2, R4, R5: bytes of a segment become rows, and from the rows the files come back byte
for byte.
"""

import base64
from typing import Any

import orjson
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from logdrive.errors import StorageError
from logdrive.model import records as record
from logdrive.pipeline.bronze.rebuild import rebuild
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.decode.columns import parse_times
from logdrive.pipeline.decode.decode import Decoder
from logdrive.pipeline.decode.headers import BatchRow, batches_table, rows_from_table
from logdrive.pipeline.decode.schema import BATCHES, EVENTS
from tests.logdrive.pipeline.segments import (
    SEGMENT,
    STREAM,
    Segment,
    file_records,
    line_record,
    lines,
    source_id,
    text_block,
)

patient = settings(deadline=None, max_examples=80)  # the first example loads Arrow's kernels


def decoded(segment: Segment) -> tuple[pa.Table, list[BatchRow]]:
    decoder = Decoder(STREAM)
    assert decoder.decode_batches(segment.name, 0, bytes(segment.data))[0] == len(segment.data)
    table, batches = decoder.take_tables()
    table.validate(full=True)
    assert table.schema.equals(EVENTS)
    assert sum(batch.rows for batch in batches) == table.num_rows
    return table, batches


def file_of(table: pa.Table) -> bytes:
    pieces = list(rebuild(table))
    assert [at for at, _ in pieces] == [0] * len(pieces)
    return pieces[0][1] if pieces else b""


pieces = st.lists(
    st.one_of(
        st.sampled_from(
            [b"\n", b"\r\n", b"\r", b"\r\r\n", b"\xff", b"\xe4\xbd", "ä€🦫".encode(), b"", b"x"]
        ),
        st.binary(max_size=12),
    ),
    max_size=30,
)


@patient
@given(pieces, st.lists(st.integers(1, 40), min_size=1, max_size=6), st.integers(0, 2**32))
def test_r2_any_file_comes_back_byte_for_byte(
    parts: list[bytes], steps: list[int], seed: int
) -> None:
    data, segment, at, turn = b"".join(parts), Segment(), 0, 0
    whole = _by_lines(data)
    while at < len(whole):
        some = whole[at : at + steps[turn % len(steps)]]
        start = sum(map(len, whole[:at]))
        size = sum(map(len, some))
        records, count = (
            file_records(b"".join(some), start) if (seed >> turn) & 1 else _lean(some, start)
        )
        segment.data_batch("a", start, start + size, records, count)
        at, turn = at + len(some), turn + 1
    table, batches = decoded(segment)
    assert file_of(table) == data
    assert sum(batch.events for batch in batches) == table.num_rows == len(whole)
    assert table["ordinal"].to_pylist() == [n for batch in batches for n in range(batch.rows)]


def _by_lines(data: bytes) -> list[bytes]:
    parts = [part + b"\n" for part in data.split(b"\n")]
    parts[-1] = parts[-1][:-1]
    return [part for part in parts if part]


def _lean(some: list[bytes], start: int) -> tuple[list[bytes], int]:
    records = []
    for line in some:
        records.append(line_record(line, start))
        start += len(line)
    return records, len(some)


@patient
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["ä\n", "two\nlines\r\n", "no end", "\n", "\r\n", "x"]), st.booleans()
        ),
        min_size=1,
        max_size=12,
    )
)
def test_r1_lengths_cut_events_and_name_what_was_dropped(events: list[tuple[str, bool]]) -> None:
    start, data, lengths, kept_text, expected, dropped = 100, b"", [], "", [], []
    for text, keep in events:
        exact, at = text.encode(), start + len(data)
        data += exact
        lengths.append(len(exact) if keep else -len(exact))
        if keep:
            kept_text += text
            expected.append((at, at + len(exact), text))
        else:
            dropped.append((at, at + len(exact)))
    segment = Segment()
    block = record.block_record(start, start + len(data), len(expected), kept_text, lengths)
    segment.data_batch(
        "a",
        start,
        start + len(data),
        [block],
        len(expected),
        skipped=sum(b - a for a, b in dropped),
    )
    table, (batch,) = decoded(segment)
    rows = table.select(["start", "end"]).to_pylist()
    texts = [
        message + eol
        for message, eol in zip(table["message"].to_pylist(), table["eol"].to_pylist(), strict=True)
    ]
    assert [
        (row["start"], row["end"], text) for row, text in zip(rows, texts, strict=True)
    ] == expected
    assert all(not message.endswith("\n") for message in table["message"].to_pylist())
    assert batch.dropped == dropped
    assert set(table["flag"].to_pylist()) <= {None}


@pytest.mark.parametrize(
    "payload",
    [
        b'{"log":{"offset":0,"end":5,"lines":1},"message":"four"}',
        b'{"log":{"offset":0,"end":5,"lines":1},"message":"four\\n","lengths":[4]}',
        b'{"log":{"offset":0,"end":5,"lines":1},"message":"four\\n","lengths":[5,0]}',
        b'{"log":{"offset":0,"end":5,"lines":1},"message":"four\\n","lengths":"no"}',
        b'{"log":{"offset":0,"end":9,"lines":1},"message":"four\\n","lengths":[5,-2]}',
        '{"log":{"offset":0,"end":3,"lines":1},"message":"ä\\n","lengths":[1,2]}'.encode(),
        b'{"log":{"offset":0,"end":5,"lines":1},"message":["four"]}',
        b'{"log":{"offset":-1,"end":5,"lines":1},"message":"four"}',
        b'{"log":{"offset":7,"end":7},"message":""}',
        b'{"log":{"end":7},"message":"x"}',
        b'{"log":{"offset":0,"end":7}}',
        b'{"log":{"offset":0,"end":7},"message":"x","event":{"original_base64":"%"}}',
        b'{"log":{"offset":0,"end":9},"message":"?","event":{"original_base64":"/w=="}}',
        b'{"log":{"offset":0,"end":2,"eol":"\\r\\n"},"message":"?","event":{"original_base64":"/w=="}}',
    ],
)
def test_r1_a_record_that_contradicts_its_form_is_kept_and_flagged(payload: bytes) -> None:
    segment = Segment()
    segment.data_batch("a", 0, 5, [payload], 1)
    segment.data_batch("a", 5, 7, [text_block(b"x\n", 5)], 1)
    table, _ = decoded(segment)
    assert table["flag"].to_pylist() == ["malformed", None]
    assert table["original"].to_pylist() == [payload, None]
    assert table["source"].to_pylist() == [source_id("a")] * 2


@pytest.mark.parametrize(
    ("payload", "flag"),
    [
        ('{"log":{"offset":0,"end":3},"message":"ä"}', None),
        ('{"log":{"offset":0,"end":4,"eol":"\\r\\n"},"message":"ä"}', None),
        ('{"log":{"offset":0,"end":2,"eol":""},"message":"ä"}', None),
        ('{"log":{"offset":0,"end":2},"message":"ä"}', "changed"),
        ('{"log":{"offset":0,"end":900},"message":"short"}', "changed"),
        ('{"log":{"offset":0,"end":6,"eol":""},"message":"short"}', "changed"),
        (
            '{"@timestamp":"2026-11-21T06:00:00Z","log":{"offset":0,"end":900},"message":"short"}',
            "changed",
        ),
    ],
)
def test_r2_a_single_event_that_is_not_as_long_as_in_its_file_is_flagged(
    payload: str, flag: str | None
) -> None:
    segment = Segment()
    segment.data_batch("a", 0, orjson.loads(payload)["log"]["end"], [payload.encode()], 1)
    table, _ = decoded(segment)
    assert table["flag"].to_pylist() == [flag]
    assert table["end"].to_pylist() == [orjson.loads(payload)["log"]["end"]]


def test_records_of_other_shippers_become_rows_whatever_their_shape() -> None:
    beat = {
        "@timestamp": "2026-11-21T06:00:00.123Z",
        "host": {"name": "db", "os": "linux"},
        "log": {"offset": 17, "file": {"path": "/var/log/db.log", "inode": 5}},
        "message": "hello",
        "tags": ["x"],
    }
    version_1 = {"line": "old", "host": "h1", "file": "/f", "offset": "12"}
    records = [
        orjson.dumps(beat),
        orjson.dumps(version_1),
        b"[1]",
        b"{",
        b"\xff",
        b'{"message":{"a":1}}',
        b'{"offset":"far","log":"x"}',
    ]
    segment = Segment()
    segment.foreign("beats", records)
    table, (batch,) = decoded(segment)
    rows = table.to_pylist()
    assert batch.kept is None
    assert [row["flag"] for row in rows] == [
        None,
        None,
        "not_object",
        "not_json",
        "not_json",
        None,
        None,
    ]
    assert [row["original"] for row in rows[2:5]] == [b"[1]", b"{", b"\xff"]
    first = rows[0]
    assert (first["host"], first["path"], first["start"], first["message"], first["form"]) == (
        "db",
        "/var/log/db.log",
        17,
        "hello",
        "foreign",
    )
    assert first["time"].isoformat() == "2026-11-21T06:00:00.123000+00:00"
    assert orjson.loads(first["fields"]) == {
        "host": {"os": "linux"},
        "log": {"file": {"inode": 5}},
        "tags": ["x"],
    }
    assert (
        rows[1]["message"],
        rows[1]["host"],
        rows[1]["path"],
        rows[1]["start"],
        rows[1]["fields"],
    ) == ("old", "h1", "/f", 12, None)
    assert rows[5]["message"] == '{"a":1}'
    assert orjson.loads(rows[6]["fields"]) == {"offset": "far", "log": "x"}


def test_full_records_of_our_agent_have_their_end_where_their_bytes_end() -> None:
    full = {
        "@timestamp": "2026-11-21T06:00:00Z",
        "host": {"name": "h"},
        "log": {"offset": 3, "file": {"path": "/p"}},
        "message": "ä",
    }
    odd = full | {
        "log": {"offset": 6, "eol": ""},
        "event": {"original_base64": base64.b64encode(b"\xff\xfe").decode()},
    }
    segment = Segment()
    segment.data_batch("a", 3, 8, [orjson.dumps(full), orjson.dumps(odd)], 2)
    table, _ = decoded(segment)
    assert table["form"].to_pylist() == ["full", "full"]
    assert list(rebuild(table)) == [(3, "ä\n".encode() + b"\xff\xfe")]


@pytest.mark.parametrize("read", [2**63 - 1, 253_402_300_800_000, -1])
def test_r4_a_time_of_a_header_that_is_none_is_not_known(read: int) -> None:
    segment = Segment()
    segment.data_batch("a", 0, 20, file_records(lines("a", 0, 1))[0], 1, read=read)
    table, batches = decoded(segment)
    assert (table.num_rows, batches[0].read) == (1, None)
    assert batches_table(batches)["read"].null_count == 1


def test_r4_columns_of_a_batch_come_from_its_header_and_survive_the_table() -> None:
    segment = Segment()
    segment.data_batch(
        "a",
        0,
        20,
        file_records(lines("a", 0, 1))[0],
        1,
        skipped=3,
        attributes={"host": "h", "path": "/p", "resend": True},
    )
    segment.gap("a", 20, 30, "removed", exact=False)
    segment.ended("a", 30)
    _, batches = decoded(segment)
    table = batches_table(batches)
    assert table.schema.equals(BATCHES)
    assert rows_from_table(table) == batches
    data, gap, end = batches
    assert (data.host, data.path, data.resend, data.skipped, data.kept) == (
        "h",
        "/p",
        True,
        3,
        [(0, 20)],
    )
    assert (gap.mark_start, gap.mark_end, gap.mark_reason, gap.mark_exact, gap.kept) == (
        20,
        30,
        "removed",
        False,
        None,
    )
    assert (end.kind, end.mark_end, end.mark_reason) == ("end", 30, "removed")
    assert [batch.next for batch in batches] == [gap.offset, end.offset, len(segment.data)]


def test_r5_a_header_is_known_by_its_place_only() -> None:
    """History 10: a foreign peer sends a record that looks like a header."""
    fake = Segment()
    fake.data_batch("b", 0, 5, [], 0, size=500_000)
    segment = Segment()
    segment.foreign("beats", [bytes(fake.data[8:]), b'{"message":"after"}'])
    table, batches = decoded(segment)
    assert len(batches) == 1
    assert table.num_rows == 2


@pytest.mark.parametrize(
    "payload",
    [b"", b"plain", b'{"logdrive":{"v":2}}', b'{"logdrive":{"v":1,"kind":"data"}}', b"\0" * 40_000],
)
def test_r5_a_headless_record_is_a_row_of_its_own_and_the_next_header_is_found(
    payload: bytes,
) -> None:
    segment = Segment()
    segment.stray(payload)
    segment.data_batch("a", 0, 2, [text_block(b"x\n", 0)], 1)
    table, batches = decoded(segment)
    assert [batch.kind for batch in batches] == ["headless", "data"]
    assert table["flag"].to_pylist() == ["headless", None]
    assert table["original"].to_pylist()[0] == payload
    assert table["source"].to_pylist() == [None, source_id("a")]


@pytest.mark.parametrize(
    "figures",
    [
        {"size": 2**40},
        {"size": -1},
        {"events": -1},
        {"previous": 9, "position": 3},
        {"previous": None},
        {"kind": "other"},
    ],
)
def test_r5_a_header_whose_figures_no_receiver_writes_is_headless(figures: dict[str, Any]) -> None:
    segment = Segment()
    values: dict[str, Any] = {
        "kind": "data",
        "source": "a",
        "records": [],
        "events": 0,
        "previous": 0,
        "position": 1,
    }
    segment.batch(**(values | figures))
    assert [place.header for place in walk_batches(SEGMENT, 0, bytes(segment.data))] == [None]


def test_records_that_do_not_fill_their_batch_are_kept_as_one_row() -> None:
    segment = Segment()
    segment.data_batch("a", 0, 2, [text_block(b"x\n", 0)], 1)
    # the header is made to claim four bytes more
    broken = bytes(segment.data[:-1]) + b"!" + b"\0\0\0\0"
    fixed = broken.replace(
        b'"bytes":%d' % (len(segment.data) - _body(segment)),
        b'"bytes":%d' % (len(segment.data) - _body(segment) + 4),
    )
    assert len(fixed) == len(broken)
    decoder = Decoder(STREAM)
    assert decoder.decode_batches(SEGMENT, 0, fixed)[0] == len(fixed)
    table, _ = decoder.take_tables()
    assert table["flag"].to_pylist() == ["malformed"]
    assert table["original"].to_pylist() == [fixed[_body(segment) :]]


def _body(segment: Segment) -> int:
    return next(walk_batches(SEGMENT, 0, bytes(segment.data))).body


@patient
@given(st.integers(0, 1000))
def test_a_batch_cut_off_by_the_end_of_what_was_read_waits_for_the_next_read(cut: int) -> None:
    segment = Segment()
    for n in range(4):
        segment.data_batch("a", 2 * n, 2 * n + 2, [text_block(b"x\n", 2 * n)], 1)
    data, decoder = bytes(segment.data), Decoder(STREAM)
    following, _ = decoder.decode_batches(SEGMENT, 0, data[: min(cut, len(data))])
    assert decoder.decode_batches(SEGMENT, following, data[following:])[0] == len(data)
    assert file_of(decoder.take_tables()[0]) == b"x\n" * 4


def test_bytes_that_are_no_events_end_in_one_clear_error() -> None:
    with pytest.raises(StorageError, match="at 0: not an event"):
        Decoder(STREAM).decode_batches(SEGMENT, 0, b"GET / HTTP/1.1\r\n\r\n")


def test_a_decoder_with_nothing_gives_empty_tables() -> None:
    table, batches = Decoder(STREAM).take_tables()
    assert (table.num_rows, batches) == (0, [])
    assert batches_table(batches).num_rows == 0


def test_times_of_records_are_utc_and_what_is_none_is_null() -> None:
    some = ["2026-11-21T06:00:00Z", "2026-11-21T07:00:00.5+01:00", None]
    assert [str(one) for one in parse_times(pa.array(some))[0].to_pylist()] == [
        "2026-11-21 06:00:00+00:00",
        "2026-11-21 06:00:00.500000+00:00",
        "None",
    ]
    odd = parse_times(
        pa.array([*some, "2026-11-21T06:00:00", "yesterday", "0001-01-01T00:00:00+23:59"])
    )[0].to_pylist()
    assert [str(one) for one in odd[3:]] == ["2026-11-21 06:00:00+00:00", "None", "None"]
    assert odd[:2] == parse_times(pa.array(some))[0].to_pylist()[:2]


def fields_of(*records: bytes) -> list[Any]:
    """Return the rows of foreign *records*, in order."""
    segment = Segment()
    segment.foreign("beats", records)
    return decoded(segment)[0].to_pylist()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("yesterday", None),
        ("", None),
        ("2026-11-21T25:00:00Z", None),
        ("2026-11-21T06:00:00.123456789Z", "06:00:00.123456+00:00"),
    ],
)
def test_a_timestamp_of_which_the_time_column_lacks_something_stays_in_the_fields(
    text: str, time: str | None
) -> None:
    good = {"@timestamp": "2026-11-21T06:00:00.123Z", "message": "m"}
    odd = good | {"@timestamp": text}
    rows = fields_of(
        *map(
            orjson.dumps, (good, odd | {"a": [1]}, good | {"b": 2}, odd, {"message": "none"}, good)
        )
    )
    assert [row["fields"] and orjson.loads(row["fields"]) for row in rows] == [
        None,
        {"@timestamp": text, "a": [1]},
        {"b": 2},
        {"@timestamp": text},
        None,
        None,
    ]
    assert [row["time"] is not None for row in rows] == [
        True,
        time is not None,
        True,
        time is not None,
        False,
        True,
    ]
    assert time is None or rows[1]["time"].time().isoformat() + "+00:00" == time


EXACT = [
    '{"a":18446744073709551616}',
    '{"a":-9223372036854775809}',
    '{"a":[{"b":123456789012345678901234567890},1,1.50,"e+"],"c":null,"ä":true}',
    '{"a":' + "9" * 300 + "}",
    '{"log":{"offset":123456789012345678901234567890}}',
    '{"offset":"x","host":{"id":123456789012345678901234567890}}',
]


@pytest.mark.parametrize("text", EXACT, ids=range(len(EXACT)))
def test_numbers_that_no_column_takes_stay_as_they_were_written(text: str) -> None:
    (row,) = fields_of(f'{{"message":"m",{text[1:]}'.encode())
    assert (row["message"], row["flag"], row["fields"]) == ("m", None, text)


def test_a_message_that_is_a_number_stays_as_it_was_written() -> None:
    rows = fields_of(
        b'{"message":123456789012345678901234567890}', b'{"line":[123456789012345678901234567890]}'
    )
    assert [row["message"] for row in rows] == [
        "123456789012345678901234567890",
        "[123456789012345678901234567890]",
    ]


def test_numbers_of_our_own_agents_records_stay_as_they_were_written_too() -> None:
    segment, text = Segment(), '{"id":123456789012345678901234567890}'
    segment.data_batch(
        "a", 0, 2, [b'{"log":{"offset":0,"end":2},"message":"x",' + text[1:].encode()], 1
    )
    assert decoded(segment)[0]["fields"].to_pylist() == [text]


def test_numbers_beside_the_pairs_of_an_agent_that_speaks_v1_stay_as_they_were_written() -> None:
    pairs = '"line":"x","offset":"0","file":"/f","log.origin":"o"'
    flagged = fields_of(
        f'{{{pairs},"log.flags":"partial","id":123456789012345678901234567890}}'.encode()
    )
    assert [(row["message"], row["path"], row["flag"]) for row in flagged] == [("x", "/f", None)]
    assert '"id":123456789012345678901234567890' in flagged[0]["fields"]
    assert orjson.loads(flagged[0]["fields"])["log"] == {"origin": "o", "flags": ["partial"]}


def test_a_number_that_cannot_be_kept_for_its_depth_leaves_the_record_as_it_came() -> None:
    deep = (
        b'{"message":"m","a":'
        + b"[" * 1000
        + b"123456789012345678901234567890"
        + b"]" * 1000
        + b"}"
    )
    (row,) = fields_of(deep)
    assert deep in (row["original"], b'{"message":"m",' + (row["fields"] or "").encode()[1:])
