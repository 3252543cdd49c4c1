"""The handlers of the Iggy face over a store on a disk in memory, asked without a connection."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import cast

import pytest

from logdrive.services.auth import passwords
from logdrive.services.auth.users import UserConfig, Users, UsersConfig
from logdrive.services.iggy.server.handlers.handlers import Handlers
from logdrive.services.iggy.server.handlers.service import IggyService
from logdrive.services.iggy.server.sessions import IggySession, IggySessions
from logdrive.services.numbering.segments import open_numbering
from logdrive.store.engine import Store
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.streams import Streams
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.identifiers import (
    Balanced,
    Consumer,
    ConsumerKind,
    Partitioning,
    PollingKind,
    PollingStrategy,
    ToPartition,
)
from logdrive.wire.iggy.messages.decode import decode_polled
from logdrive.wire.iggy.messages.envelope import StoredMessage
from logdrive.wire.iggy.messages.sending import encode_sent
from logdrive.wire.iggy.replies import Polled, SendConfirmation
from logdrive.wire.iggy.requests import (
    CreateTopic,
    IggyCreateStream,
    IggyLogin,
    IggyRequest,
    PollMessages,
    SendMessages,
)
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.store.harness import running
from tests.support import virtual_time
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import VirtualClock

STREAM, TOPIC = "logs", "app"
NEXT = PollingStrategy(PollingKind.NEXT)
FIRST = PollingStrategy(PollingKind.FIRST)
ME = Consumer(ConsumerKind.CONSUMER, 1)


@dataclass(frozen=True, slots=True)
class Face:
    """A running face; `streams` are those that other faces change."""

    store: Store
    clock: VirtualClock
    catalog: Catalog
    streams: Streams
    service: IggyService
    handlers: Handlers

    def connect(self, revision: Revision = Revision.R2C) -> IggySession:
        """Return the session of a new connection, on which nobody has logged in."""
        return self.service.sessions.open_session("127.0.0.1:4000", revision)

    async def login(
        self, user: str = "iggy", password: str = "iggy", revision: Revision = Revision.R2C
    ) -> IggySession:
        session = self.connect(revision)
        await self.handlers.handle(session, IggyLogin(user, password))
        return session

    async def ask(self, session: IggySession, *requests: IggyRequest) -> object:
        """Return the reply to the last of *requests*."""
        reply: object = None
        for request in requests:
            reply = await self.handlers.handle(session, request)
        return reply

    async def with_topic(
        self, partitions: int = 2, revision: Revision = Revision.R2C
    ) -> IggySession:
        """Return the session of root, after making a stream and a topic."""
        session = await self.login(revision=revision)
        await self.ask(session, IggyCreateStream(STREAM), CreateTopic(STREAM, TOPIC, partitions))
        return session

    async def send(
        self,
        session: IggySession,
        *payloads: str,
        to: int | None = None,
        partitioning: Partitioning | None = None,
    ) -> tuple[SendConfirmation, ...]:
        messages = [StoredMessage(payload.encode()) for payload in payloads]
        batch = encode_sent(session.revision, messages)
        chosen = ToPartition(to) if to is not None else partitioning or Balanced()
        count = None if session.revision <= Revision.R1 else len(messages)
        reply = await self.ask(session, SendMessages(STREAM, TOPIC, chosen, batch, count))
        return cast("tuple[SendConfirmation, ...]", reply)

    async def poll(
        self,
        session: IggySession,
        partition: int | None = 0,
        *,
        consumer: Consumer = ME,
        strategy: PollingStrategy = FIRST,
        commit: bool = False,
        count: int = 100,
    ) -> tuple[int, list[str]]:
        """Return the partition that was polled, and its messages."""
        reply = await self.ask(
            session,
            PollMessages(consumer, STREAM, TOPIC, partition, strategy, count, commit),
        )
        assert isinstance(reply, Polled)
        batches = reply.batches
        data = b"".join(batches) if isinstance(batches, tuple) else bytes(batches)
        messages = decode_polled(session.revision, data)
        return reply.partition, [bytes(message.payload).decode() for message in messages]


def users_file(may: dict[str, dict[str, str]]) -> Users:
    """Return the users of a users file, whose passwords are `secret`."""
    text = str(passwords.hash_password("secret", bytes(passwords.SALT_BYTES)))
    users = [UserConfig(name=name, password=text, may=grants) for name, grants in may.items()]
    return Users(UsersConfig(user=tuple(users)), InlineExecutor(), Random(9))


@contextlib.asynccontextmanager
async def iggy_handlers(
    disk: MemoryDisk | None = None, *, users: Users | None = None, clean: bool = True
) -> AsyncIterator[Face]:
    """Run a face on *disk*; unless *clean*, it ends as in a crash."""
    async with running(disk or MemoryDisk(), delay=0.001, clean=clean) as store:
        clock = VirtualClock()
        catalog = Catalog(store, clock=clock, random=Random(3))
        async with open_numbering(store, clock=clock) as numbering:
            service = IggyService(
                catalog,
                numbering,
                IggySessions(Random(11)),
                users=users,
                clock=clock,
                random=Random(5),
                executor=InlineExecutor(),
            )
            await service.start()
            task = asyncio.create_task(service.run(), name="upkeep")
            try:
                yield Face(store, clock, catalog, Streams(catalog), service, Handlers(service))
                if clean:
                    task.cancel()
                    await asyncio.wait([task])
                    await service.close()
            finally:
                task.cancel()
                await asyncio.wait([task])


def with_iggy(test: Callable[[Face], Awaitable[None]]) -> Callable[[], None]:
    """Make a test of *test*, run in virtual time."""

    async def main() -> None:
        async with iggy_handlers() as face:
            await test(face)

    def run() -> None:
        virtual_time.run(main())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@contextlib.contextmanager
def refused(reason: Reason) -> Iterator[None]:
    """Expect an `IggyError` for *reason*."""
    with pytest.raises(IggyError) as caught:
        yield
    assert caught.value.reason is reason, caught.value
