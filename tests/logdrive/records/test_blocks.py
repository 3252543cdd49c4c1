"""Records of a file hold each of its bytes once, whatever the bytes are, and keep every limit (R1,
R2, R3).
"""

import base64
import sys
import tracemalloc

import orjson
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from logdrive.model.framing import frame_events
from logdrive.model.limits import BLOCK_TEXT_BYTES, RECORD_BYTES, RUN_BYTES, RUN_RECORDS
from logdrive.records.blocks import LINE_PART_BYTES, BlockEncoder, Encoder
from logdrive.records.chunk import TextChunk
from logdrive.records.full_records import FullEncoder, FullRecords
from logdrive.records.run_pack import encode_parts
from logdrive.records.runs import Run
from logdrive.wire.lumberjack.frames import json_frames
from tests.agent.inputs.files.rebuild import rebuilt

FULL = FullEncoder(
    {"host": {"name": "h"}, "fields": {"share": "50%d"}},
    "/var/log/100%s.log",
    "origin",
    lambda: 1_700_000_000_000,
)
ENCODERS = [pytest.param(BlockEncoder(), id="blocks"), pytest.param(FULL, id="full")]

lines = st.one_of(
    st.text(max_size=40).map(str.encode),
    st.binary(max_size=40),
    st.sampled_from(
        [
            b"",
            b"\r",
            b"a\rb",
            b"\xff",
            b"\0" * 30,
            "\u2028\x85".encode(),
            b"\xed\xa0\x80",
            b'\\n","',
            b"a\x7f",
        ]
    ),
)
texts = st.lists(st.tuples(lines, st.sampled_from([b"\n", b"\r\n"])), min_size=1, max_size=30).map(
    lambda ls: b"".join(a + b for a, b in ls)
)
ODD = [
    b"\xe2\x82",
    b"\xf0\x9f\x98",
    b"\xed\xa0\x80",
    b"\xff\r",
    "\ufffd".encode(),
    "\ufffd".encode() + b"\xff",
    "ä€😀".encode(),
    b"\r",
    b"a\xc3",
]
units = st.sampled_from(
    [b"x", b"\0", b"\xff", "ä€😀".encode(), b"\xff\0", b"\n", b"\0\n", b"a\r\n", b"\xe2\n"]
)


def chunk(text: bytes, start: int = 0, *, open_end: bool = False) -> TextChunk:
    """Return *text* as a chunk: after the bytes before it, and before bytes that were not taken."""
    before = b"before\n"[: start if start < 7 else 7]
    return TextChunk(
        start, before + text + b"partial", len(before), len(before) + len(text), open_end
    )


def whole(encoder: Encoder, text: bytes, start: int) -> list[Run]:
    """Return the runs for all of *text*, from as many calls of the encoder as it needs."""
    runs: list[Run] = []
    while not runs or runs[-1].position < start + len(text):
        at = runs[-1].position if runs else start
        runs += encoder.encode_chunk(chunk(text[at - start :], at), 0, 0)
        assert runs[-1].position > at
    return runs


def check(runs: list[Run], text: bytes, start: int) -> None:
    """Check *runs* against rules R1 to R3."""
    records = [record for run in runs for record in run.records]
    data, events = rebuilt(records, start)
    assert data == text
    assert events == sum(run.events for run in runs)
    assert runs[-1].position == start + len(text)
    for run in runs:
        assert run.records
        assert len(run.records) <= RUN_RECORDS
        assert run.size == sum(8 + len(record) for record in run.records) <= RUN_BYTES
        assert max(map(len, run.records)) <= RECORD_BYTES


@pytest.mark.parametrize("encoder", ENCODERS)
@given(
    text=texts,
    rest=st.one_of(st.just(b""), lines.filter(lambda line: b"\n" not in line)),
    start=st.integers(0, 2**45),
)
@example(text=b"\n", rest=b"", start=0)
@settings(max_examples=150)
def test_any_bytes_come_back_exactly__R2(
    encoder: Encoder, text: bytes, rest: bytes, start: int
) -> None:
    check(encoder.encode_chunk(chunk(text + rest, start), 0, 0), text + rest, start)


@pytest.mark.parametrize("encoder", ENCODERS)
@given(
    parts=st.lists(
        st.tuples(
            st.sampled_from(
                [
                    b"x",
                    b"\0",
                    b"\xff",
                    "ä€😀".encode(),
                    b"\xff\0",
                    b"\n",
                    b"\0\n",
                    b"a\r\n",
                    b"\xe2\n",
                ]
            ),
            st.integers(1, 400_000),
        ),
        min_size=1,
        max_size=3,
    )
)
@example(parts=[(b"\n", 3_279), (b"\n", 30_000)])
@settings(max_examples=25, deadline=None)
def test_large_and_hostile_stretches_keep_the_limits__R3(
    encoder: Encoder, parts: list[tuple[bytes, int]]
) -> None:
    text = b"".join(
        (unit * count)[: 30_000 if b"\n" in unit else 700_000] + b"\n" for unit, count in parts
    )
    check(whole(encoder, text, 7), text, 7)


def test_plain_text_is_blocks_of_whole_lines__R1() -> None:
    text = b"".join(b"%06d %s\n" % (n, b"x" * (n % 300)) for n in range(6000))
    cuts = BlockEncoder().encode_chunk(chunk(text), 0, 0)
    records = [orjson.loads(record) for cut in cuts for record in cut.records]
    assert all("lines" in record["log"] and record["message"].endswith("\n") for record in records)
    assert all(len(record["message"]) <= BLOCK_TEXT_BYTES for record in records)
    assert len(records) == -(-len(text) // (BLOCK_TEXT_BYTES - 400))


def test_a_block_of_nuls_is_cut_smaller__h23_R3() -> None:
    text = (b"\0" * 999 + b"\n") * 260
    records = [
        record for cut in BlockEncoder().encode_chunk(chunk(text), 0, 0) for record in cut.records
    ]
    assert len(records) > 1
    assert all(b'"lines"' in record for record in records)
    check(BlockEncoder().encode_chunk(chunk(text), 0, 0), text, 0)


def test_only_the_lines_that_are_not_utf8_leave_the_block__R2() -> None:
    text = b"one\ntwo\n\xe4 three\nfour\n\xe4\r\nsix\n"
    records = [
        orjson.loads(record)
        for cut in BlockEncoder().encode_chunk(chunk(text, 100), 0, 0)
        for record in cut.records
    ]
    assert [("lines" in record["log"], record["message"]) for record in records] == [
        (True, "one\ntwo\n"),
        (False, "\ufffd three"),
        (True, "four\n"),
        (False, "\ufffd"),
        (True, "six\n"),
    ]
    assert records[1]["event"]["original_base64"] == "5CB0aHJlZQ=="
    assert records[3]["log"]["eol"] == "\r\n"


def test_a_line_too_long_goes_in_flagged_pieces_that_cut_no_character__R2_R3() -> None:
    text = "€".encode() * 200_000 + b"\nnext\n"
    records = [
        orjson.loads(record)
        for cut in BlockEncoder().encode_chunk(chunk(text), 0, 0)
        for record in cut.records
    ]
    first = records[:-2]
    assert len(first) == 600_000 // LINE_PART_BYTES
    assert all(
        record["log"]["flags"] == ["partial"] and record["log"]["eol"] == "" for record in first
    )
    assert all("event" not in record for record in records)
    assert "flags" not in records[-2]["log"]
    assert records[-1]["message"] == "next\n"
    check(BlockEncoder().encode_chunk(chunk(text), 0, 0), text, 0)


def test_a_last_line_without_newline_says_so__P3_R2() -> None:
    whole, more = (
        BlockEncoder().encode_chunk(chunk(b"a\nbc", 5, open_end=cut), 0, 0)[-1].records[-1]
        for cut in (False, True)
    )
    assert orjson.loads(whole) == {"log": {"offset": 7, "end": 9, "eol": ""}, "message": "bc"}
    assert orjson.loads(more)["log"]["flags"] == ["partial"]


def test_a_full_record_stands_by_itself__R1() -> None:
    text = b"plain\nwith \xe4\r\n"
    records = [
        orjson.loads(record)
        for cut in FULL.encode_chunk(chunk(text, 10), 0, 0)
        for record in cut.records
    ]
    assert records == [
        {
            "@timestamp": "2023-11-14T22:13:20.000Z",
            "host": {"name": "h"},
            "fields": {"share": "50%d"},
            "log": {"file": {"path": "/var/log/100%s.log"}, "origin": "origin", "offset": 10},
            "message": "plain",
        },
        {
            "@timestamp": "2023-11-14T22:13:20.000Z",
            "host": {"name": "h"},
            "fields": {"share": "50%d"},
            "log": {
                "file": {"path": "/var/log/100%s.log"},
                "origin": "origin",
                "offset": 16,
                "eol": "\r\n",
            },
            "message": "with \ufffd",
            "event": {"original_base64": "d2l0aCDk"},
        },
    ]


def test_a_batch_of_plain_lines_makes_the_records_that_single_lines_make__R1() -> None:
    together = [
        record for cut in FULL.encode_chunk(chunk(b"one\ntwo %s\n"), 0, 0) for record in cut.records
    ]
    alone = [
        FULL.encode_chunk(chunk(line, at), 0, 0)[0].records[0]
        for at, line in ((0, b"one\n"), (4, b"two %s\n"))
    ]
    assert together == alone
    assert orjson.loads(together[1])["log"]["file"]["path"] == "/var/log/100%s.log"


def test_plain_lines_make_runs_of_as_many_records_as_a_batch_takes__R3() -> None:
    cuts = FULL.encode_chunk(chunk(b"line\n" * 2048), 0, 0)
    assert [len(cut.records) for cut in cuts] == [999, 999, 50]


def test_plain_lines_too_long_together_make_shorter_runs__R3() -> None:
    text = b'"' * 700 + b"\n"  # escaped, 999 of them are longer than a run
    cuts = FULL.encode_chunk(chunk(text * 2500), 0, 0)
    assert [len(cut.records) for cut in cuts] == [499] * 4 + [504]
    assert all(isinstance(cut.records, FullRecords) for cut in cuts)
    assert all(cut.size <= RUN_BYTES for cut in cuts)


def test_a_long_line_among_plain_ones_is_cut_by_itself__R2() -> None:
    text = b"one\n" + b"x" * LINE_PART_BYTES + b"\ntwo\n" + b"y" * (LINE_PART_BYTES - 1) + b"\n"
    records = [orjson.loads(r) for cut in FULL.encode_chunk(chunk(text), 0, 0) for r in cut.records]
    assert [len(record["message"]) for record in records] == [
        3,
        LINE_PART_BYTES,
        0,
        3,
        LINE_PART_BYTES - 1,
    ]
    assert [record["log"].get("eol") for record in records] == [None, "", None, None, None]


@pytest.mark.parametrize("encoder", ENCODERS)
@given(
    text=texts,
    first=st.sampled_from([1, 2030, 2048, 2049, 2**32 - 1000]),
    longest=st.sampled_from([0, 1850, 1900, 5000]),
)
def test_runs_are_framed_as_their_records_are__D1(
    encoder: Encoder, text: bytes, first: int, longest: int
) -> None:
    of_a_file = chunk(text + b"x" * longest + b"\n")
    for run in encoder.encode_chunk(of_a_file, 0, 0):
        records = list(run.records)
        assert b"".join(encode_parts(run.encode_frames(first))) == b"".join(
            json_frames(first, records)
        )
        if isinstance(run.records, FullRecords):
            assert run.records.encode_events() == frame_events(records)
            assert run.records.size == len(frame_events(records)) == run.size


@given(
    st.lists(
        st.one_of(
            st.binary(max_size=12).map(lambda line: line.replace(b"\n", b"")), st.sampled_from(ODD)
        ),
        min_size=1,
        max_size=20,
    )
)
def test_lines_that_are_not_utf_8_are_shown_as_each_by_itself__R2(lines: list[bytes]) -> None:
    text = b"\n".join([*lines, b""])
    records = [
        orjson.loads(record)
        for cut in BlockEncoder().encode_chunk(chunk(text), 0, 0)
        for record in cut.records
    ]
    singles = [record for record in records if "lines" not in record["log"]]
    odd = [line.removesuffix(b"\r") for line in lines if not is_utf8(line)]
    assert [record["message"] for record in singles] == [
        line.decode(errors="replace") for line in odd
    ]
    assert [base64.b64decode(record["event"]["original_base64"]) for record in singles] == odd


def is_utf8(line: bytes) -> bool:
    try:
        line.decode()
    except UnicodeDecodeError:
        return False
    return True


def test_lines_of_two_bytes_that_are_not_utf_8_cost_few_calls_each() -> None:
    """Calls are counted, as times say little on a shared machine.

    The event loop waits for 262,144 such lines.
    """
    calls, lines, of_a_file = 0, 10_000, TextChunk.from_whole_file(b"\xff\n" * 10_000)

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        runs = BlockEncoder().encode_chunk(of_a_file, 0, 0)
    finally:
        sys.setprofile(None)
    assert sum(run.events for run in runs) == lines
    assert calls < 14 * lines


@pytest.mark.parametrize("unit", [b"\xff\n", b"ok\n\xff\n", b"\0" * 300 + b"\n" + b"\xff\n" * 99])
@pytest.mark.parametrize("encoder", [BlockEncoder(), FULL], ids=["blocks", "full records"])
def test_text_that_makes_too_many_runs_is_left_for_later__R2(encoder: Encoder, unit: bytes) -> None:
    text = unit * (200_000 // len(unit))
    start, records = 0, []
    while start < len(text):
        cuts = encoder.encode_chunk(chunk(text[start:], start), 0, 0)
        assert len(cuts) < 80
        records += [record for cut in cuts for record in cut.records]
        assert cuts[-1].position > start
        start = cuts[-1].position
    assert rebuilt(records, 0) == (text, text.count(b"\n"))


def test_lines_that_are_not_utf_8_take_no_more_memory_than_their_records() -> None:
    """Thousands of records are kept for each file.

    If a library reserved 4 KiB for each, that would soon be a gigabyte.
    """
    text = ("caf\xe9 " * 12 + "\n").encode("latin-1") * 5_000
    chunk = TextChunk.from_whole_file(text)
    tracemalloc.start()
    try:
        runs = BlockEncoder().encode_chunk(chunk, 0, 0)
        kept, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(len(run.records) for run in runs) == 5_000
    assert kept < 2 * sum(run.size for run in runs)
