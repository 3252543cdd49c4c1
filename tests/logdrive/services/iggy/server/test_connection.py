"""`logdrive.services.iggy.server.connection`: order, pipelined sends, memory, and the end."""

import asyncio

import pytest

from logdrive.errors import TransientError
from logdrive.services.iggy.server.connection import PIPELINED_SENDS
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.frames import encode_request_frame
from logdrive.wire.iggy.requests import (
    GetClients,
    IggyCreateStream,
    Ping,
    SendMessages,
)
from logdrive.wire.iggy.requests_codec import encode_request
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.services.iggy.server.connections import (
    LOGIN,
    SEND,
    Classic,
    ScriptedFace,
    ping,
    scripted,
)
from tests.support import virtual_time


def test_sends_are_under_way_together_and_answered_in_their_order() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client()
        await client.say(SEND, SEND, SEND)
        await face.settle()
        first, second, third = face.answers.sends
        second.set_exception(IggyError(Reason.PARTITION_NOT_FOUND))
        third.set_result(())
        heard = asyncio.create_task(client.hear())
        await face.settle()
        assert not heard.done()  # the first is not durable
        first.set_result(())
        assert (await heard).status == 0
        assert [(await client.hear()).status for _ in range(2)] == [3007, 0]

    scripted(main)


def test_a_send_that_is_refused_at_once_is_told_in_its_turn() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client()
        await client.say(SEND)
        await face.settle()
        face.answers.refuse_send = IggyError(Reason.UNAUTHORIZED)
        await client.say(SEND)
        await face.settle()
        face.answers.sends[0].set_result(())
        assert [(await client.hear()).status for _ in range(2)] == [0, 41]

    scripted(main)


def test_other_requests_wait_for_the_sends_before_them() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client()
        await client.say(SEND, GetClients(), SEND)
        await face.settle()
        assert face.answers.asked[1:] == [SEND]
        face.answers.sends[0].set_result(())
        await face.settle()
        assert face.answers.asked[1:] == [SEND, GetClients(), SEND]

    scripted(main)


def test_a_client_has_only_so_many_sends_under_way() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client()
        await client.say(*[SEND] * (PIPELINED_SENDS + 10))
        await face.settle()
        assert len(face.answers.sends) == PIPELINED_SENDS
        face.answers.sends[0].set_result(())
        await face.settle()
        assert len(face.answers.sends) == PIPELINED_SENDS + 1

    scripted(main)


@pytest.mark.parametrize("step", [1, 7, 64])
def test_requests_may_come_in_any_pieces(step: int) -> None:
    async def main(face: ScriptedFace) -> None:
        client = Classic(await face.connect())
        requests = [LOGIN, Ping(), IggyCreateStream("s")]
        data = b"".join(
            encode_request_frame(*encode_request(client.revision, each)) for each in requests
        )
        for at in range(0, len(data), step):
            await client.stream.write([data[at : at + step]])
            await asyncio.sleep(0.001)
        assert [(await client.hear()).status for _ in requests] == [0, 0, 0]

    scripted(main)


def test_a_bug_in_an_answer_is_told_and_the_connection_goes_on() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client()
        face.answers.failure = KeyError("a bug")
        assert (await client.ask(GetClients())).status == 1
        face.answers.failure = None
        assert await ping(client) == 0

    scripted(main)


def test_a_send_whose_outcome_is_not_known_ends_the_connection_without_an_answer() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client()
        await client.say(SEND)
        await face.settle()
        face.answers.sends[0].set_exception(TransientError("the disk failed"))
        assert await client.stream.read() == b""

    scripted(main)


def test_what_was_begun_is_answered_when_the_face_closes() -> None:
    async def main(face: ScriptedFace) -> None:
        client, idle = await face.client(), await face.client()
        await client.say(SEND)
        await face.settle()
        closing = asyncio.create_task(face.server.close())
        await face.settle()
        assert await idle.stream.read() == b""
        await client.say(SEND)
        face.answers.sends[0].set_result(())
        assert (await client.hear()).status == 0
        assert await client.stream.read() == b""  # the second was not begun
        await closing
        assert len(face.answers.sends) == 1
        assert len(face.sessions) == 0

    scripted(main)


def test_a_face_closes_though_a_send_never_ends() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client()
        await client.say(SEND)
        await face.settle()
        await face.server.close()
        with pytest.raises(TransientError):
            await client.stream.read()

    scripted(main)


def test_bytes_of_sends_count_until_they_are_answered() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client()
        held = face.server._memory
        large = SendMessages("s", "t", SEND.partitioning, bytes(100_000), 1)
        await client.say(large, large)
        await face.settle()
        assert held.used > 200_000
        for send in face.answers.sends:
            send.set_result(())
        assert [(await client.hear()).status for _ in range(2)] == [0, 0]
        assert held.used == 0

    scripted(main)


def test_one_client_that_leaves_a_send_unfinished_does_not_keep_others_out() -> None:
    async def main() -> None:
        async with ScriptedFace(held_bytes=4 * 2**20).listening() as face:
            large = SendMessages("s", "t", SEND.partitioning, bytes(3 * 2**20), 1)
            frame = encode_request_frame(*encode_request(Revision.R2C, large))
            stuck = [await face.client() for _ in range(3)]  # more than there is room for
            writing = [asyncio.ensure_future(each.stream.write([frame[:-1]])) for each in stuck]
            await asyncio.sleep(0.1)
            client = await face.client()
            await client.say(SEND)
            await asyncio.sleep(10)
            face.answers.sends[0].set_result(())
            assert (await client.hear()).status == 0
            for each in writing:
                each.cancel()
            await asyncio.gather(*writing, return_exceptions=True)

    virtual_time.run(main())


def test_a_client_that_reads_no_answers_holds_up_only_itself() -> None:
    async def main(face: ScriptedFace) -> None:
        face.network.link("slow", "store").capacity = 64
        slow = Classic(await face.connect("slow"))
        talking = asyncio.ensure_future(slow.say(LOGIN, *[Ping()] * 1000))
        await face.settle()
        assert await ping(await face.client()) == 0
        assert not talking.done()
        talking.cancel()

    scripted(main)


def test_a_length_beyond_the_limit_ends_the_connection_before_memory_is_taken() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client()
        await client.stream.write([(2**31).to_bytes(4, "little") + b"\x65\0\0\0"])
        assert await client.stream.read() == b""

    scripted(main)


def test_a_client_is_listed_until_the_store_has_done_what_it_sent() -> None:
    async def main(face: ScriptedFace) -> None:
        client = await face.client()
        await client.say(SEND, SEND)
        await face.settle()
        client.stream.abort()
        await asyncio.sleep(10)
        assert len(face.sessions) == 1
        for send in face.answers.sends:
            send.set_result(())
        await face.settle()
        assert len(face.sessions) == 0

    scripted(main)
