"""Topics of a running Iggy that hold batches as a receiver's sink sends them."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence

from logdrive.address import IggyAddress
from logdrive.model.units import MIB
from logdrive.net.tcp import SystemTransport
from logdrive.services.iggy.client.session import IggyClientSession
from logdrive.services.iggy.reader.connect import connect_service
from logdrive.services.iggy.reader.stream import IggyStreamReader, iggy_stream
from logdrive.wire.iggy.errors import IggyError
from logdrive.wire.iggy.identifiers import ToPartition
from logdrive.wire.iggy.messages.envelope import StoredMessage
from logdrive.wire.iggy.messages.sending import encode_sent
from logdrive.wire.iggy.requests import (
    CreateTopic,
    IggyCreateStream,
    PurgeTopic,
    SendMessages,
)
from logdrive.wire.iggy.revision import Revision

STREAM = "reader-tests"
_SEND_BYTES = 4 * MIB  # the first servers take 10 MiB
_SEND_MESSAGES = 2000


def topic_at(port: int, topic: str) -> IggyStreamReader:
    return iggy_stream(IggyAddress("127.0.0.1", port, STREAM, topic))


def create(reader: IggyStreamReader, partitions: int = 1, number: int = 1) -> None:
    """Create the topic with this *number*, and its stream if it is missing."""

    async def act(session: IggyClientSession) -> None:
        chosen = session.revision is Revision.R0  # ids are the client's there
        with contextlib.suppress(IggyError):  # another test has made it
            await session.request(IggyCreateStream(STREAM, 1 if chosen else None))
        topic = reader.address.stream
        await session.request(CreateTopic(STREAM, topic, partitions, id=number if chosen else None))

    _play(reader, act)


def send(reader: IggyStreamReader, messages: Sequence[StoredMessage], partition: int = 0) -> None:
    """Send *messages* to a partition."""

    async def act(session: IggyClientSession) -> None:
        for part in _parts(messages):
            batch = encode_sent(session.revision, part, origin_us=1)
            await session.request(
                SendMessages(
                    STREAM, reader.address.stream, ToPartition(partition), batch, len(part)
                )
            )

    _play(reader, act)


def purge(reader: IggyStreamReader) -> None:
    """Delete all messages of the topic."""

    async def act(session: IggyClientSession) -> None:
        await session.request(PurgeTopic(STREAM, reader.address.stream))

    _play(reader, act)


def _parts(messages: Sequence[StoredMessage]) -> list[list[StoredMessage]]:
    parts, size = list[list[StoredMessage]](), _SEND_BYTES
    for message in messages:
        size += len(message.payload)
        if size > _SEND_BYTES or len(parts[-1]) == _SEND_MESSAGES:
            parts.append([])
            size = len(message.payload)
        parts[-1].append(message)
    return parts


def _play(reader: IggyStreamReader, act: Callable[[IggyClientSession], Awaitable[None]]) -> None:
    async def main() -> None:
        async with (
            asyncio.timeout(60),
            connect_service(SystemTransport(), reader.target) as session,
        ):
            await act(session)

    asyncio.run(main())
