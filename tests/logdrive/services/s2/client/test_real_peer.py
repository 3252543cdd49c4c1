"""The client against a real s2-lite: requests, sessions, errors, a killed server."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

from logdrive.address import S2Address
from logdrive.errors import TransientError
from logdrive.net.tcp import SystemTransport
from logdrive.services.s2.client.client import S2Client
from logdrive.services.s2.client.target import target_of
from logdrive.wire.s2.errors import RangeNotSatisfiableError, S2Error, SeqNumMismatchError
from logdrive.wire.s2.queries import ReadQuery
from logdrive.wire.s2.records import AppendInput, Record
from tests.conftest import unavailable
from tests.support.s2.lite import S2Lite, s2_lite, why_no_s2_lite


@pytest.fixture(scope="module", autouse=True)
def _real_service() -> None:
    if reason := why_no_s2_lite():
        unavailable(reason)


STREAM = "logs/a b"


@pytest.fixture(scope="module")
def lite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S2Lite]:
    directory: Path = tmp_path_factory.mktemp("s2-lite")
    with s2_lite(directory) as running:
        yield running


def play(lite: S2Lite, basin: str, test: Callable[[S2Client], Awaitable[None]]) -> None:
    async def main() -> None:
        address = S2Address("127.0.0.1", lite.port, basin, STREAM)
        target = target_of(address, tls=None, plain=False, token=None, environ={})
        async with asyncio.timeout(60), S2Client(SystemTransport(), target) as client:
            assert (await client.ensure_stream(STREAM)).seq_num == 0
            await test(client)

    asyncio.run(main())


def test_what_is_appended_is_read(lite: S2Lite) -> None:
    async def test(client: S2Client) -> None:
        records = (Record(b"one"), Record(b"x" * 3000, ((b"k", b"v"), (b"k", b""))))
        ack = await client.append(STREAM, AppendInput(records, match_seq_num=0, fencing_token=""))
        assert (ack.start.seq_num, ack.end.seq_num) == (0, 2)
        read = await client.read(STREAM, ReadQuery(seq_num=0))
        assert [(r.body, r.headers) for r in read.records] == [(r.body, r.headers) for r in records]
        with pytest.raises(RangeNotSatisfiableError):
            await client.read(STREAM, ReadQuery(seq_num=2))
        assert await client.ensure_stream(STREAM) == await client.check_tail(STREAM)

    play(lite, "client-unary", test)


def test_a_session_acknowledges_in_order_and_ends_with_the_first_failure(lite: S2Lite) -> None:
    async def test(client: S2Client) -> None:
        async with await client.open_append_session(STREAM) as session:
            for n in range(5):
                await session.send(AppendInput((Record(b"y" * 5000),), match_seq_num=n))
            for n in range(5):
                ack = await session.next_ack()
                assert ack is not None
                assert ack.start.seq_num == n
            await session.send(AppendInput((Record(b"z"),), match_seq_num=3))
            with contextlib.suppress(TransientError):  # the service may have ended it by now
                await session.send(AppendInput((Record(b"z"),), match_seq_num=5))
            with pytest.raises(SeqNumMismatchError) as mismatch:
                await session.next_ack()
            assert mismatch.value.seq_num == 5
        assert (await client.check_tail(STREAM)).seq_num == 5

    play(lite, "client-session", test)


def test_a_reading_session_follows(lite: S2Lite) -> None:
    async def test(client: S2Client) -> None:
        async with await client.open_read_session(STREAM, ReadQuery(seq_num=0)) as session:
            beat = await session.next_batch()
            assert beat is not None
            assert not beat.records
            await client.append(STREAM, AppendInput((Record(b"new"),)))
            batch = await session.next_batch()
            assert batch is not None
            assert [r.body for r in batch.records] == [b"new"]

    play(lite, "client-follow", test)


def test_errors_say_whether_they_pass(lite: S2Lite) -> None:
    async def test(client: S2Client) -> None:
        with pytest.raises(S2Error) as missing:
            await client.check_tail("there-is-none")
        assert missing.value.code == "stream_not_found"
        async with await client.open_append_session("there-is-none") as session:
            with pytest.raises(S2Error) as refused:
                await session.next_ack()
        assert refused.value.code == "stream_not_found"

    play(lite, "client-errors", test)


def test_a_lost_connection_is_made_again(tmp_path: Path) -> None:
    with s2_lite(tmp_path) as lite:

        async def test(client: S2Client) -> None:
            await client.append(STREAM, AppendInput((Record(b"kept"),)))
            session = await client.open_append_session(STREAM)
            lite.kill()
            with pytest.raises(TransientError):
                await session.next_ack()
            with pytest.raises(TransientError):
                await client.check_tail(STREAM)
            lite.start()
            assert (await client.check_tail(STREAM)).seq_num == 1

        play(lite, "client-kill", test)
