"""The sink onto a real s2-lite: two sinks on one stream, and a server that is killed amid appends;
each batch is there once, in its writer's order.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from logdrive.address import S2Address
from logdrive.errors import TransientError
from logdrive.host.clock import SystemClock
from logdrive.model.framing import frame_event
from logdrive.model.numbers import ABSENT, NOT_KEPT
from logdrive.net.tcp import SystemTransport
from logdrive.services.s2.batches import BATCH_HEADER, NUMBER_HEADER, SOURCE_HEADER
from logdrive.services.s2.client.client import S2Client
from logdrive.services.s2.client.target import target_of
from logdrive.services.s2.sink import S2Sink
from logdrive.services.sink import Sink
from logdrive.wire.s2.queries import ReadQuery
from logdrive.wire.s2.records import SequencedRecord
from tests.conftest import unavailable
from tests.support.s2.lite import S2Lite, s2_lite, why_no_s2_lite


@pytest.fixture(scope="module", autouse=True)
def _real_service() -> None:
    if reason := why_no_s2_lite():
        unavailable(reason)


BATCHES, KILLS = 400, 3
_AHEAD = 40


def test_each_batch_is_stored_once_by_two_sinks_through_kills(tmp_path: Path) -> None:
    with s2_lite(tmp_path) as lite:
        asyncio.run(_through_kills(lite))


async def _through_kills(lite: S2Lite) -> None:
    address = S2Address("127.0.0.1", lite.port, "sink-basin", "logs/events")
    target = target_of(address, tls=None, plain=False, token=None, environ={})
    async with (
        asyncio.timeout(120),
        S2Client(SystemTransport(), target) as one,
        S2Client(SystemTransport(), target) as other,
        await _open(one, address) as first,
        await _open(other, address) as second,
    ):
        appending = [
            asyncio.create_task(_append(sink, UUID(int=number)))
            for number, sink in enumerate((first, second))
        ]
        for _ in range(KILLS):
            await asyncio.sleep(0.2)
            await asyncio.to_thread(lite.kill)
            await asyncio.to_thread(lite.start)
        await asyncio.gather(*appending)
        records = await _read(one, address.stream)
    heads = [dict(record.headers) for record in records if record.headers]
    assert len({head[BATCH_HEADER] for head in heads}) == len(heads) == 2 * BATCHES
    for number in range(2):
        source = UUID(int=number).hex.encode()
        stored = [int(head[NUMBER_HEADER]) for head in heads if head[SOURCE_HEADER] == source]
        assert stored == list(range(1, BATCHES + 1))
    assert [record.body for record in records if not record.headers] == [b"x" * 500] * 2 * BATCHES


async def _open(client: S2Client, address: S2Address) -> S2Sink:
    sink = await S2Sink.open_stream(
        client, address, store_id=UUID(int=9), clock=SystemClock(), random=Random()
    )
    as_sink: Sink = sink
    assert not as_sink.keeps_numbers
    return sink


async def _append(sink: S2Sink, writer: UUID) -> None:
    assert await sink.open_writer(sink.segment, writer) == NOT_KEPT
    futures: list[asyncio.Future[None]] = []
    batch = [frame_event(b"header"), frame_event(b"x" * 500)]
    for number in range(1, BATCHES + 1):
        previous = number - 1 or ABSENT
        futures.append(sink.append_batch(sink.segment, writer, batch, 2, previous, number))
        if len(futures) > _AHEAD:
            await futures.pop(0)
        await asyncio.sleep(0.002)
    await asyncio.gather(*futures)


async def _read(client: S2Client, stream: str) -> Sequence[SequencedRecord]:
    records: list[SequencedRecord] = []
    while True:
        try:
            tail = (await client.check_tail(stream)).seq_num
            break
        except TransientError:  # the last kill was just now
            await asyncio.sleep(0.1)
    while len(records) < tail:
        records += (await client.read(stream, ReadQuery(seq_num=len(records)))).records
    return records
