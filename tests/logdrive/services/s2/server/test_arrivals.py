"""Messages that never end take no more memory than their limit, and nobody else is refused."""

import asyncio

import pytest

from logdrive.services.s2.server import service
from logdrive.services.s2.server.arrivals import Arrivals
from logdrive.wire.s2.errors import S2Error
from tests.logdrive.services.s2.server.served import BASIN, JSON, face
from tests.support import virtual_time

RECORDS = "/v1/streams/a/records"


def test_above_the_limit_the_message_that_began_first_is_refused() -> None:
    ends: dict[str, object] = {}

    async def arrive(arrivals: Arrivals, name: str, *sizes: int) -> None:
        try:
            async with arrivals.arriving() as arrival:
                for size in sizes:
                    arrival.hold(size)
                    await asyncio.sleep(1)
        except S2Error as error:
            ends[name] = error.code
        else:
            ends[name] = "whole"

    async def main() -> None:
        arrivals = Arrivals(100)
        first = asyncio.create_task(arrive(arrivals, "first", 40, 45, 45, 45, 45))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(arrive(arrivals, "second", 0, 30, 50, 60, 0))
        await asyncio.gather(first, second)
        assert ends == {"first": "request_timeout", "second": "whole"}
        assert arrivals.size == 0

    virtual_time.run(main())


@pytest.mark.parametrize("kind", ["s2s/proto", "application/protobuf"])
def test_messages_without_an_end_are_given_up_for_others(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "ARRIVING_BYTES", 50_000)
    headers = (("s2-basin", BASIN), ("content-type", kind))
    begun = (100_000).to_bytes(3) + b"\0" + b"x" * 20_000

    async def main() -> None:
        async with face() as made:
            await made.make("a")
            async with made.connect() as client:
                streams = []
                for _ in range(4):
                    stream = await client.open_stream("POST", RECORDS, headers)
                    await stream.send(begun)
                    streams.append(stream)
                body = {"records": [{"body": "y" * 30_000}]}
                got = await made.ask("POST", RECORDS, body, JSON)
                assert got.status == 200
                refused = []
                for stream in streams:
                    async with stream, asyncio.timeout(1):
                        try:
                            answer = await stream.response()
                            text = await stream.read_body(1000)
                        except TimeoutError:
                            continue
                        if b"request_timeout" in text:
                            refused.append(answer.status)
                assert len(refused) >= 2

    virtual_time.run(main())
