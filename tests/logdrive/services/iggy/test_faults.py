"""The sink at an Iggy with the faults of real ones: what it sends again, and what it says."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from structlog.testing import capture_logs

from logdrive.address import IggyAddress
from logdrive.errors import TransientError
from logdrive.model.framing import EVENT_HEAD, frame_event
from logdrive.model.numbers import ABSENT, NOT_KEPT
from logdrive.services.iggy.batches import BATCH_HEADER, NUMBER_HEADER, SOURCE_HEADER
from logdrive.services.iggy.client.target import IggyTarget
from logdrive.services.iggy.sink import IggySink
from logdrive.services.sink import NumberConflictError, SegmentMovedError
from logdrive.wire.iggy.messages.envelope import decode_message
from logdrive.wire.iggy.messages.headers import decode_headers
from logdrive.wire.iggy.revision import Revision
from tests.receiver.world import in_virtual_time
from tests.support.iggy.faulty import FaultyIggy
from tests.support.memory.transport import MemoryNetwork
from tests.support.virtual_time import VirtualClock

PORT = 8090
WRITER = UUID(int=7)
RECORDS = (b"one", b"two")
_MESSAGES = 1 + len(RECORDS)

revisions = pytest.mark.parametrize("revision", [Revision.R1, Revision.R2C])


class Site(NamedTuple):
    """A sink, its server, and what is logged."""

    iggy: FaultyIggy
    sink: IggySink
    log: Sequence[MutableMapping[str, Any]]

    def submit(self, first: int, count: int = 1) -> "list[asyncio.Future[None]]":
        """Append batches with the numbers from *first* on."""
        parts = [frame_event(b"header"), *map(frame_event, RECORDS)]
        return [
            self.sink.append_batch(
                self.sink.segments[0], WRITER, parts, _MESSAGES, number - 1 or ABSENT, number
            )
            for number in range(first, first + count)
        ]

    async def append(self, first: int, count: int = 1) -> None:
        """Append batches and wait until they are acknowledged."""
        await asyncio.gather(*self.submit(first, count))

    @property
    def whole(self) -> list[int]:
        """The numbers of the batches that are there whole, in their order."""
        messages = [decode_message(event[EVENT_HEAD:]) for event in self.iggy.stored[0]]
        numbers: list[int] = []
        for at, message in enumerate(messages):
            behind = messages[at + 1 : at + _MESSAGES]
            if message.headers and [(m.payload, m.headers) for m in behind] == [
                (record, b"") for record in RECORDS
            ]:
                values = {key.value: value.value for key, value in decode_headers(message.headers)}
                assert (message.payload, values[SOURCE_HEADER]) == (b"header", WRITER.hex)
                assert len(bytes.fromhex(str(values[BATCH_HEADER]))) == 16
                numbers.append(int(values[NUMBER_HEADER]))
        return numbers

    def said(self, words: str) -> bool:
        """Whether *words* were logged."""
        return any(words in str(entry["event"]) for entry in self.log)


@asynccontextmanager
async def site(
    revision: Revision, *, partitions: int = 1, pending_bytes: int = 1 << 20
) -> AsyncIterator[Site]:
    """A sink at a new server."""
    network, iggy = MemoryNetwork(), FaultyIggy(revision, partitions)
    await network.host("iggy").listen("iggy", PORT, None, iggy.serve)
    with capture_logs() as log:
        sink = await IggySink.open_topic(
            network.host("receiver"),
            IggyTarget("iggy", PORT),
            IggyAddress("iggy", PORT, "logs", "events"),
            partitions=partitions,
            store_id=UUID(int=9),
            clock=VirtualClock(),
            random=Random(1),
            pending_bytes=pending_bytes,
        )
        async with sink:
            yield Site(iggy, sink, log)


@revisions
@in_virtual_time
async def test_what_an_acknowledgement_is_worth_is_told(revision: Revision) -> None:
    async with site(revision) as at:
        await at.append(1, 40)
        assert at.whole == list(range(1, 41))
        assert at.said(
            "an acknowledgement of this service means that it has the messages in memory"
        )


@revisions
@in_virtual_time
async def test_what_was_stored_without_an_answer_is_not_sent_again(revision: Revision) -> None:
    async with site(revision) as at:
        await at.append(1, 3)
        at.iggy.answers = False
        waiting = at.submit(4, 5)
        await asyncio.sleep(1)
        assert at.whole == list(range(1, 9))
        assert not any(future.done() for future in waiting)
        at.iggy.answers = True
        at.iggy.cut()
        await asyncio.gather(*waiting)
        await at.append(9, 2)
        assert at.whole == list(range(1, 11))
        assert at.said("batches of a lost session are in the partition")


@revisions
@in_virtual_time
async def test_what_a_lost_client_may_still_store_is_waited_for(revision: Revision) -> None:
    async with site(revision) as at:
        await at.append(1, 3)
        at.iggy.store_seconds = 3.0
        waiting = at.submit(4, 2)
        await asyncio.sleep(0.1)
        at.iggy.cut()  # the server goes on with what it has
        await asyncio.gather(*waiting)
        assert at.whole == [1, 2, 3, 4, 5]


@revisions
@in_virtual_time
async def test_where_the_list_of_clients_is_not_shown_some_seconds_are_waited(
    revision: Revision,
) -> None:
    async with site(revision) as at:
        at.iggy.lists_clients = False
        at.iggy.store_seconds = 3.0
        waiting = at.submit(1, 2)
        await asyncio.sleep(0.1)
        at.iggy.cut()
        await asyncio.gather(*waiting)
        assert at.whole == [1, 2]


@pytest.mark.parametrize("left", range(1, _MESSAGES))
@in_virtual_time
async def test_a_batch_that_a_crash_has_torn_is_sent_again(left: int) -> None:
    async with site(Revision.R2C) as at:
        await at.append(1, 3)
        at.iggy.answers = False
        waiting = at.submit(4, 2)
        await asyncio.sleep(1)
        at.iggy.answers = True
        at.iggy.crash([4 * _MESSAGES + left])  # of the fifth batch so many messages
        await asyncio.gather(*waiting)
        await at.append(6)
        assert at.whole == [1, 2, 3, 4, 5, 6]
        assert len(at.iggy.stored[0]) == 6 * _MESSAGES + left


@in_virtual_time
async def test_what_a_crash_lost_of_what_was_acknowledged_is_an_error_in_the_log() -> None:
    async with site(Revision.R2C) as at:
        await at.append(1, 5)
        at.iggy.crash([2 * _MESSAGES])
        await at.append(6)
        assert at.whole == [1, 2, 6]
        assert at.said("the partition is shorter than it was")


@in_virtual_time
async def test_a_send_that_the_server_stores_twice_disturbs_nothing_else() -> None:
    async with site(Revision.R2C) as at:
        at.iggy.doubles = 1
        await at.append(1)
        at.iggy.answers = False
        waiting = at.submit(2)
        await asyncio.sleep(1)
        at.iggy.answers = True
        at.iggy.cut()
        await asyncio.gather(*waiting)
        assert at.whole == [1, 1, 2]


@in_virtual_time
async def test_sends_that_the_server_stores_in_another_order_are_not_sent_again() -> None:
    async with site(Revision.R2C) as at:
        at.iggy.swaps = 1
        await at.append(1)
        await at.append(2)
        at.iggy.cut()
        await at.append(3)
        assert at.whole == [2, 1, 3]


@in_virtual_time
async def test_batches_of_one_writer_follow_on_and_too_much_that_waits_is_refused() -> None:
    async with site(Revision.R2C, pending_bytes=300) as at:
        at.iggy.answers = False
        waiting = at.submit(1)
        with pytest.raises(NumberConflictError):
            at.submit(3)
        with pytest.raises(TransientError, match="bytes wait for logs/events/0"):
            at.submit(2, 2)
        at.iggy.answers = True
        at.iggy.cut()
        await asyncio.gather(*waiting)
        assert at.whole[:1] == [1]


@in_virtual_time
async def test_what_waits_for_a_partition_that_was_sealed_goes_to_another() -> None:
    """As the receiver does it: the append fails, the writer has moved, and another takes it."""
    async with site(Revision.R2C, partitions=2) as at:
        before = {key: at.sink.segment_for(key) for key in map(str, range(20))}
        assert set(before.values()) == {"logs/events/0", "logs/events/1"}
        await at.append(1)
        at.iggy.closed[0] = None
        (waiting,) = at.submit(2)
        with pytest.raises(TransientError, match="the partition 0 is sealed"):
            await waiting
        with pytest.raises(TransientError, match="the partition 0 is sealed"):
            at.sink.append_batch("logs/events/0", WRITER, [frame_event(b"h")], 1, 1, 2)
        with pytest.raises(SegmentMovedError):
            await at.sink.open_writer("logs/events/0", WRITER)
        assert {at.sink.segment_for(key) for key in before} == {"logs/events/1"}
        assert await at.sink.open_writer("logs/events/1", WRITER) == NOT_KEPT
        await asyncio.gather(*at.submit(2))
        assert (at.whole, len(at.iggy.stored[1])) == ([1], _MESSAGES)


@in_virtual_time
async def test_what_a_purged_partition_has_stored_since_is_not_sent_again() -> None:
    async with site(Revision.R2C) as at:
        await at.append(1, 5)
        at.iggy.stored[0].clear()
        await at.append(6, 2)
        at.iggy.answers = False
        waiting = at.submit(8, 2)
        await asyncio.sleep(1)
        at.iggy.answers = True
        at.iggy.cut()
        await asyncio.gather(*waiting)
        assert at.whole == [6, 7, 8, 9]
        assert at.said("the partition is shorter than it was")


@in_virtual_time
async def test_a_purged_partition_that_others_fill_again_is_read_from_its_new_end_on() -> None:
    async with site(Revision.R2C) as at:
        await at.append(1, 5)
        at.iggy.stored[0].clear()
        await at.append(6, 2)
        await asyncio.sleep(30)  # the topic is described meanwhile
        assert at.said("the partition is shorter than it was")
        at.iggy.answers = False
        waiting = at.submit(8, 2)
        await asyncio.sleep(1)
        at.iggy.stored[0] += at.iggy.stored[0] * 2  # by others
        at.iggy.answers = True
        at.iggy.cut()
        await asyncio.gather(*waiting)
        assert at.whole[:4] == [6, 7, 8, 9]
        assert len(at.whole) == 3 * 4


@in_virtual_time
async def test_a_service_that_refuses_sends_is_told_once_and_not_said_to_answer_again() -> None:
    async with site(Revision.R2C) as at:
        await at.append(1)
        at.iggy.full = True
        waiting = at.submit(2, 2)
        await asyncio.sleep(60)
        assert not at.said("answers again")
        refusals = [entry for entry in at.log if "does not take appends" in entry["event"]]
        assert len(refusals) == 1
        at.iggy.full = False
        await asyncio.gather(*waiting)
        assert at.whole == [1, 2, 3]
        assert at.said("answers again")
