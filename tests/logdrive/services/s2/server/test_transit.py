"""Messages that stop on their way take no more than their limit, and nobody else is refused."""

import asyncio
from dataclasses import replace

import pytest

from logdrive.errors import TransientError
from logdrive.net.http.limits import CLIENT_LIMITS
from logdrive.services.s2.server import service
from logdrive.services.s2.server.transit import Transit
from logdrive.wire.s2.errors import S2Error
from tests.logdrive.services.s2.server.served import BASIN, JSON, face
from tests.support import virtual_time

RECORDS = "/v1/streams/a/records"


def test_above_the_limit_the_message_that_began_first_is_refused() -> None:
    ends: dict[str, object] = {}

    async def arrive(transit: Transit, name: str, *sizes: int) -> None:
        try:
            async with transit.passing() as passage:
                for size in sizes:
                    passage.hold(size)
                    await asyncio.sleep(1)
        except S2Error as error:
            ends[name] = error.code
        else:
            ends[name] = "whole"

    async def main() -> None:
        transit = Transit(100)
        first = asyncio.create_task(arrive(transit, "first", 40, 45, 45, 45, 45))
        await asyncio.sleep(0.1)
        second = asyncio.create_task(arrive(transit, "second", 0, 30, 50, 60, 0))
        await asyncio.gather(first, second)
        assert ends == {"first": "request_timeout", "second": "whole"}
        assert transit.size == 0

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


@pytest.mark.parametrize("kind", ["session", "unary"])
def test_answers_that_nobody_reads_are_given_up_for_others(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(service, "LEAVING_BYTES", 50_000)
    limits = replace(CLIENT_LIMITS, stream_window_bytes=0)
    headers = [("s2-basin", BASIN)]
    if kind == "session":
        headers.append(("content-type", "s2s/proto"))

    async def main() -> None:
        async with face() as made:
            await made.make("a")
            await made.append("a", "x" * 20_000)
            async with made.connect(limits=limits) as deaf:
                streams = [
                    await deaf.open_stream("GET", f"{RECORDS}?seq_num=0", headers, end=True)
                    for _ in range(4)
                ]
                await asyncio.sleep(10)
                lost = 0
                for stream in streams:
                    async with stream:
                        try:
                            async with asyncio.timeout(1):
                                await stream.response()
                                await stream.read_body(100_000)
                        except TransientError:
                            lost += 1
                        except TimeoutError:
                            continue
                assert lost == 2
            got = await made.ask("GET", f"{RECORDS}?seq_num=0")
            assert got.status == 200

    virtual_time.run(main())
