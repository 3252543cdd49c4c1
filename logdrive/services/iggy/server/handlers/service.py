"""What the handlers of the Iggy face work with: one object for one store."""

import asyncio
from collections.abc import Iterator
from random import Random

import structlog

from logdrive.address import IGGY_PORT
from logdrive.errors import LogdriveError
from logdrive.host.clock import Clock
from logdrive.host.executor import Executor
from logdrive.services.auth.users import Users
from logdrive.services.iggy.server.config import DeduplicationConfig
from logdrive.services.iggy.server.log.expiry import MessageExpiry, TopicLimits
from logdrive.services.iggy.server.log.known_ids import Deduplication
from logdrive.services.iggy.server.log.partition import PartitionLog
from logdrive.services.iggy.server.log.partition_logs import PartitionLogs
from logdrive.services.iggy.server.sessions import IggySession, IggySessions
from logdrive.services.iggy.server.state.changes import TopologyChanges
from logdrive.services.iggy.server.state.memberships import Memberships
from logdrive.services.iggy.server.state.offsets import ConsumerOffsets
from logdrive.services.iggy.server.state.registry import IggyRegistry
from logdrive.services.iggy.server.state.rights import Right, RightTarget
from logdrive.services.iggy.server.state.tokens import PersonalTokens
from logdrive.services.iggy.server.state.topology import FoundTopic, IggyTopology
from logdrive.services.iggy.server.state.users import IggyUsers
from logdrive.services.numbering.segments import NumberedSegments
from logdrive.services.refusals import RefusalLog
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.streams import Streams
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.limits import NEVER, UNLIMITED

_log = structlog.get_logger("logdrive.store.iggy")


class IggyService:
    """The parts of the Iggy face of one store, and what they share."""

    def __init__(
        self,
        catalog: Catalog,
        numbering: NumberedSegments,
        sessions: IggySessions,
        *,
        users: Users | None,
        clock: Clock,
        random: Random,
        executor: Executor,
        deduplication: DeduplicationConfig | None = None,
    ) -> None:
        """Take the parts that all faces share; *users* are those of the users file, if any.

        *executor* compares passwords.
        """
        self.store = catalog.store
        self.clock = clock
        self.sessions = sessions
        self.refusals = RefusalLog(clock, "logdrive.store.iggy")
        self.started_ms = clock.now_ms()
        # where clients find this server, as it tells them
        self.address = ("127.0.0.1", IGGY_PORT)
        self.registry = IggyRegistry(self.store)
        self.logs = PartitionLogs(
            numbering,
            clock=clock,
            deduplication=None
            if deduplication is None
            else Deduplication(deduplication.entries, deduplication.seconds),
        )
        self.offsets = ConsumerOffsets(self.store, clock=clock)
        self.members = Memberships(clock.monotonic)
        self.users = IggyUsers(self.registry, users, clock=clock, random=random, executor=executor)
        self.tokens = PersonalTokens(self.registry, self.users, clock=clock, random=random)
        inside = Streams(catalog)
        self.topology = IggyTopology(self.registry, catalog, inside, on_gone=self.forget_topic)
        self.changes = TopologyChanges(
            self.topology,
            self.registry,
            catalog,
            inside,
            clock=clock,
            forget=self.logs.forget,
            empty=self.empty,
        )
        # by topic: the partition that the last balanced send went to
        self.balanced: dict[tuple[str, str], int] = {}
        self._expiry = MessageExpiry(self.store, self.logs, self._limits, clock=clock)
        self._catalog = catalog

    async def start(self) -> None:
        """Read what is stored, before any request comes."""
        await self.resolve_doubt()
        await self.users.start()
        await self.topology.register_all()
        await self.offsets.start()

    async def run(self) -> None:
        """Write offsets, have messages expire and close what is idle, until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self.offsets.run(), name="iggy offsets")
            group.create_task(self._expiry.run(), name="iggy expiry")
            group.create_task(self.logs.run(), name="idle iggy partitions")

    async def close(self) -> None:
        """Write what is not written yet; call it when no request is under way any more."""
        try:
            await self.offsets.flush()
        except LogdriveError as error:
            _log.warning(
                "the last offsets of consumers are not written: messages will come again",
                reason=str(error),
            )
        await self.logs.close()

    @property
    def is_doubtful(self) -> bool:
        """True after a change that failed: the state in memory may have what is not stored."""
        return self._catalog.is_doubtful or self.registry.is_doubtful

    async def resolve_doubt(self) -> None:
        """Read again what a failed change left in doubt, before a request relies on it."""
        if self._catalog.is_doubtful:
            async with self._catalog.turn():
                pass
        if self.registry.is_doubtful:
            async with self.registry.turn():
                pass

    async def open_partition(self, topic: FoundTopic, partition: int) -> PartitionLog:
        """Return a partition's log. Raises `IggyError`."""
        return await self.logs.open(topic.segment(partition))

    async def empty(self, segment: str) -> None:
        """Delete all messages of a segment; others have a turn before: there may be thousands."""
        await asyncio.sleep(0)
        await (await self.logs.open(segment)).purge()

    async def forget_topic(self, scope: str, stream: str, segments: list[str]) -> None:
        """Forget the members of groups of a topic that is gone, and offsets in its *segments*."""
        self.members.drop(scope, stream)
        self.balanced.pop((scope, stream), None)
        await self.offsets.forget(segments)

    def check(self, session: IggySession, right: Right, target: RightTarget | None = None) -> int:
        """Return the user of *session*. Raises `IggyError` unless that has *right* on *target*."""
        if session.user_id is None:
            raise IggyError(Reason.UNAUTHENTICATED, "log in first")
        if not self.users.permits(session.user_id, right, target):
            raise IggyError(Reason.UNAUTHORIZED, f"the user lacks {right.name} there")
        return session.user_id

    def _limits(self) -> Iterator[TopicLimits]:
        """Yield what the topics keep."""
        for scope, owner in list(self.registry.state.streams.items()):
            for topic in self.topology.known_topics(scope, owner):
                options = topic.topic.options
                yield TopicLimits(
                    f"{owner.name}/{topic.topic.name}",
                    [segment for segment in topic.segments if segment is not None],
                    None if options.expiry_us in (None, NEVER) else options.expiry_us,
                    None if options.max_size in (None, UNLIMITED) else options.max_size,
                )
