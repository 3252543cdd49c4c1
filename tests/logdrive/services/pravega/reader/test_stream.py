"""`store cat`: the lines of a stream as a person reads them, whatever form their records have (R1,
R2, R6).
"""

from collections.abc import Sequence

import msgspec
import orjson
import pytest

from logdrive.services.lines import foreign_text
from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.reader.stream import read_lines
from tests.logdrive.services.pravega.reader.test_segment import batch, stored
from tests.support.pravega_peer import S, World, in_world


def piece(event: bytes, start: int, end: int, name: str = "e") -> bytes:
    """Return bytes [*start*, *end*) of *event* as a batch."""
    mark = orjson.dumps({"event": name, "start": start, "end": end, "bytes": len(event)})
    return batch([event[start:end]], events=int(end == len(event)), mark=msgspec.Raw(mark))


async def printed(made: World) -> bytes:
    async with connect_segment_store(made.client, "server", made.port) as client:
        state = await client.segment_info(S)
        assert state is not None
        return b"".join([text async for text in read_lines(client, state, follow=False)])


async def _printed_from(made: World, batches: Sequence[bytes]) -> bytes:
    await stored(made, *batches)
    return await printed(made)


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
    assert foreign_text(record) == line
