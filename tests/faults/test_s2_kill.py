"""A store that is killed while an S2 client appends: what was acknowledged is there."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random

import orjson
import pytest

from logdrive.errors import TransientError
from logdrive.net.http.client import HttpClient
from logdrive.net.tcp import SystemTransport
from logdrive.wire.s2 import protobuf
from logdrive.wire.s2.frames import S2FrameReader, encode_frame
from logdrive.wire.s2.records import AppendInput, Record
from tests.interop.s2.suite import S2StoreProcess

pytestmark = pytest.mark.process

BASIN = ("s2-basin", "killed-basin")
JSON = ("content-type", "application/json")
SESSION = ("content-type", "s2s/proto")
RECORDS = "/v1/streams/a/records"
KILLS = 6


class Writer:
    """Appends records with running numbers, a few at a time, each where it must be."""

    def __init__(self) -> None:
        self.next = 0  # of the records, and their sequence number
        self.acknowledged = 0

    def append(self, count: int) -> bytes:
        records = tuple(Record(b"%d" % (self.next + at)) for at in range(count))
        message = protobuf.encode_append_input(AppendInput(records, match_seq_num=self.next))
        self.next += count
        return encode_frame(message)

    async def run(
        self, client: HttpClient, random: Random, acks: int, kill: Callable[[], None]
    ) -> None:
        """Append in a session; *kill* the server after *acks* acknowledgements, with more under
        way. Raises `TransientError` then.
        """
        reader = S2FrameReader(terminals=True)
        async with await client.open_stream("POST", RECORDS, (BASIN, SESSION)) as stream:
            assert (await stream.response()).status == 200
            for _ in range(8):
                await stream.send(self.append(random.randint(1, 50)))
            async for data in stream.chunks():
                reader.receive(data)
                while (frame := reader.next_frame()) is not None:
                    assert frame.error is None, frame.error
                    ack = protobuf.decode_append_ack(frame.message)
                    assert ack.start.seq_num == self.acknowledged
                    self.acknowledged = ack.end.seq_num
                    acks -= 1
                    await stream.send(self.append(random.randint(1, 50)))
                    if not acks:
                        kill()


async def stored(client: HttpClient) -> list[int]:
    """Return the numbers in the records that are there; their sequence numbers are dense."""
    found: list[int] = []
    while True:
        got = await client.request("GET", f"{RECORDS}?seq_num={len(found)}&wait=0", (BASIN,))
        if got.status == 416:
            return found
        for record in orjson.loads(got.body)["records"]:
            assert record["seq_num"] == len(found)
            found.append(int(record["body"]))


def test_no_acknowledged_record_is_lost_and_numbers_are_dense(tmp_path: Path) -> None:
    random, writer, store = Random(11), Writer(), S2StoreProcess(tmp_path)

    async def life(number: int) -> None:
        client = HttpClient(SystemTransport(), "127.0.0.1", store.port, None)
        async with asyncio.timeout(60), client:
            if number == 0:
                await client.request(
                    "POST", "/v1/basins", (JSON,), orjson.dumps({"basin": BASIN[1]})
                )
                await client.request("POST", "/v1/streams", (BASIN, JSON), b'{"stream": "a"}')
            found = await stored(client)
            assert found == list(range(len(found)))
            assert writer.acknowledged <= len(found) <= writer.next
            writer.next = writer.acknowledged = len(found)
            if number == KILLS:
                return
            with pytest.raises(TransientError):
                await writer.run(client, random, random.randint(5, 60), store.kill)

    for number in range(KILLS + 1):
        store.start()
        try:
            asyncio.run(life(number))
        finally:
            store.kill()
    assert writer.acknowledged > 100
