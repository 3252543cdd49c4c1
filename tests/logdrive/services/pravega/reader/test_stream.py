"""`store cat`: the lines of a stream as a person reads them, whatever form their records have (R1,
R2, R6, R8).
"""

from collections.abc import Sequence
from uuid import UUID

import msgspec
import orjson
import pytest

from logdrive.model.framing import frame_event
from logdrive.model.limits import PACK_BYTES, RECORD_BYTES
from logdrive.packs.faults import PackFault
from logdrive.packs.pack import PackCodec
from logdrive.services.lines import foreign_line
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.reader.stream import count_contents, read_lines
from tests.logdrive.services.pack_batches import (
    cut_text_batch,
    lying_batch,
    no_fault,
    records_batch,
    source_id,
    text_batch,
)
from tests.logdrive.services.pravega.reader.test_segment import batch, stored
from tests.support.pravega.peer import S, World, in_world


def piece(event: bytes, start: int, end: int, name: str = "e") -> bytes:
    """Return bytes [*start*, *end*) of *event* as a batch."""
    mark = orjson.dumps({"event": name, "start": start, "end": end, "bytes": len(event)})
    return batch([event[start:end]], events=int(end == len(event)), mark=msgspec.Raw(mark))


async def printed(made: World, faults: list[PackFault]) -> bytes:
    async with connect_segment_store(made.client, "server", made.port) as client:
        state = await client.segment_info(S)
        assert state is not None
        lines = read_lines(client, state, follow=False, on_fault=faults.append)
        return b"".join([text async for _, text in lines])


async def _printed_from(
    made: World, batches: Sequence[bytes], faults: list[PackFault] | None = None
) -> bytes:
    await stored(made, *batches)
    found: list[PackFault] = []
    text = await printed(made, found)
    if faults is None:
        assert not found
    else:
        faults += found
    return text


@in_world
async def test_r6_an_event_in_pieces_is_printed_once_it_is_whole(made: World) -> None:
    large, cut = orjson.dumps({"message": "l" * 300_000}), orjson.dumps({"message": "c" * 90})
    small = batch([b'{"message":"between"}'])
    parts = [
        piece(large, 0, 200_000),
        small,
        piece(cut, 0, 50, "cut"),
        piece(large, 200_000, len(large)),
    ]
    assert await _printed_from(made, parts) == b"between\n" + b"l" * 300_000 + b"\n"


@in_world
async def test_r6_the_end_of_an_event_whose_beginning_was_cut_off_is_no_line(made: World) -> None:
    large = orjson.dumps({"message": "l" * 100})
    assert (
        await _printed_from(made, [piece(large, 50, len(large)), batch([b'{"message":"x"}'])])
        == b"x\n"
    )


@in_world
async def test_r7_the_note_of_a_dead_letter_prints_nothing(made: World) -> None:
    note = msgspec.Raw(b'{"reason":"dead_letter","end":99,"letter":"x"}')
    assert await _printed_from(made, [batch([], mark=note), batch([b'{"message":"x"}'])]) == b"x\n"


TEXTS = [
    b"one\ntwo\n",
    b"the last lacks its end",
    b"CR LF\r\n\0 NULs \0\n\xff not UTF-8 \xc3(\n",
    b"x" * PACK_BYTES,
    bytes(range(256)) * 100,
]


@pytest.mark.parametrize("codec", PackCodec)
def test_r8_a_pack_is_printed_as_the_bytes_of_its_file(codec: PackCodec) -> None:
    texts = [text for text in TEXTS if codec is not PackCodec.STORED or len(text) < RECORD_BYTES]

    async def main(made: World) -> None:
        batches = [text_batch("a", 0, text, codec) for text in texts]
        assert await _printed_from(made, batches) == b"".join(texts)

    in_world(main)()


@in_world
async def test_r8_of_cut_text_and_of_records_the_lines_are_printed(made: World) -> None:
    batches = [
        cut_text_batch("a", 0, b"kept\nmultiple\n lines\n", [-3, 5, -100, 16]),
        records_batch(
            "b", 0, 10, [b'{"message":"one"}', b'{"log":{"eol":"\\r\\n"},"message":"two"}', b"?"]
        ),
    ]
    assert await _printed_from(made, batches) == b"kept\nmultiple\n lines\none\ntwo\r\n?\n"


@in_world
async def test_r8_a_pack_that_lies_is_named_and_the_others_are_printed(made: World) -> None:
    before = text_batch("a", 0, b"before\n")
    lies = lying_batch("b", 5, 105)
    faults: list[PackFault] = []
    text = await _printed_from(made, [before, lies, text_batch("a", 7, b"after\n")], faults)
    assert text == b"before\nafter\n"
    (fault,) = faults
    assert fault[:5] == (S, len(before), source_id("b"), 5, 105)
    assert f"{S} at {len(before)}: a pack of source {source_id('b')}, bytes 5 to 105" in fault.text


@in_world
async def test_r4_the_segments_contents_count_the_events_of_packs(made: World) -> None:
    await stored(
        made,
        text_batch("a", 0, b"one\ntwo\n"),
        records_batch("b", 0, 10, [b"{}"] * 3),
        batch([b'{"message":"x"}']),
    )
    async with connect_segment_store(made.client, "server", made.port) as client:
        state = await client.segment_info(S)
        assert state is not None
        found = await count_contents(client, state)
    assert (found.batches, found.events, found.sources) == (3, 6, 3)


@in_world
async def test_text_is_named_by_its_file__a_peers_also_by_the_file_in_its_records(
    made: World,
) -> None:
    one, two = (
        b'{"log":{"file":{"path":"%b"},"origin":"o","eol":""},"message":"%b"}' % (path, path)
        for path in (b"/1", b"/2")
    )
    v1 = b'{"line":"v1","file":"/1","log.origin":"o","log.eol":""}'
    odd = b'{"log":"lines","message":"odd"}'
    blocks = batch(
        [b'{"log":{"lines":1},"message":"part"}'], kind="data", source="s", previous=0, position=4
    )
    await stored(
        made, batch([one, one, two, v1, odd]), blocks, text_batch("p", 0, b"x"), frame_event(b"?")
    )
    async with connect_segment_store(made.client, "server", made.port) as client:
        state = await client.segment_info(S)
        assert state is not None
        texts = read_lines(client, state, follow=False, on_fault=no_fault)
        found = [text async for text in texts]
    peer = str(UUID(int=1))
    assert found == [
        (f"{peer} o /1", b"/1/1"),
        (f"{peer} o /2", b"/2"),
        (f"{peer} o /1", b"v1"),
        (peer, b"odd"),
        ("s", b"part"),
        (source_id("p"), b"x"),
        ("", b"?\n"),
    ]


@pytest.mark.parametrize(
    ("record", "line"),
    [
        (b'{"message":"m"}', b"m\n"),
        (b'{"line":"v1","host":"h","offset":"17"}', b"v1\n"),
        (b'{"line":"not this","message":"m"}', b"m\n"),
        (b'{"line":"cut","log.eol":""}', b"cut"),
        (b'{"line":"?","log.eol":"\\r\\n","event.original_base64":"/w=="}', b"\xff\r\n"),
        (
            b'{"line":"m","event.original_base64":"%"}',
            b'{"line":"m","event.original_base64":"%"}\n',
        ),
        (b'{"line":["a","b"]}', b'{"line":["a","b"]}\n'),
        (b'{"other":1}', b'{"other":1}\n'),
        (b'{"message":7}', b'{"message":7}\n'),
        (b"no json", b"no json\n"),
        (b"[1]", b"[1]\n"),
    ],
)
def test_the_line_of_a_foreign_record_is_printed_also_where_it_is_v1(
    record: bytes, line: bytes
) -> None:
    assert foreign_line(record) == ("", line)
