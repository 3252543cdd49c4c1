"""Reads a topic of Iggy for the pipeline's threads and Spark's processes: each call connects anew.

Calls block, and no connection is held between them, so that an `IggyStreamReader` can be pickled
for executors, and a service that was restarted is simply asked again.
"""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Final, Self, TypeVar

from logdrive.address import IggyAddress
from logdrive.errors import ConfigError, Mistake
from logdrive.host.transport import ClientTls
from logdrive.model.batch_walker import BatchRef
from logdrive.model.record_walker import frame_batch
from logdrive.model.units import MIB, OffsetUnit
from logdrive.services.batch_budget import BatchBudget
from logdrive.services.iggy.client.errors import LOGIN_REFUSED
from logdrive.services.iggy.client.target import IggyTarget, iggy_target
from logdrive.services.iggy.reader import headers
from logdrive.services.iggy.reader.blocking import BlockingIggyClient
from logdrive.services.iggy.reader.polling import (
    IggyRequester,
    Partition,
    PartitionReading,
    partition_index,
    partition_states,
)
from logdrive.services.pravega.client.controller import Login
from logdrive.services.reader import HeaderDigest, SegmentState
from logdrive.services.reader_calls import retry_call, tls_options
from logdrive.wire.iggy.errors import IggyError, Reason

T = TypeVar("T")

_CHUNK_BYTES: Final = 4 * MIB  # a chunk ends with the batch that reaches it
_LOGIN_REFUSED: Final = LOGIN_REFUSED | {Reason.UNAUTHORIZED}


@dataclass(frozen=True, slots=True)
class IggyStreamReader:
    """A topic of Iggy, at any service that speaks its protocol. Implements `ServiceReader`.

    Its segments are the topic's partitions, with the names `stream/topic/index`.
    """

    target: IggyTarget
    """With the user and the password to log in with; a service may ask for none."""
    address: IggyAddress

    @property
    def name(self) -> str:
        """The topic's name `stream/topic`, as in the tables."""
        return f"{self.address.scope}/{self.address.stream}"

    @property
    def uri(self) -> str:
        """The address without user and password, as the option `uri` of the data source."""
        return self.address.uri

    @property
    def offset_unit(self) -> OffsetUnit:
        """Records: offsets count messages."""
        return "records"

    def connection_options(self) -> dict[str, str]:
        """Return the options of the data source with which Spark's workers connect.

        Spark blanks passwords in what it shows, by the option's name.
        """
        named: dict[str, str | None] = {
            "user": self.target.user,
            "password": self.target.password,
        }
        named |= tls_options(self.target.tls)
        return {name: value for name, value in named.items() if value is not None}

    def name_of_segment(self, number: int) -> str:
        """Return the full name of the partition *number*."""
        return self._partition(number).name

    def segment_number(self, segment: str) -> int:
        """Return the number of the partition with the full name *segment*."""
        return partition_index(segment)

    def list_segments(self) -> list[SegmentState]:
        """Return the states of the partitions, by number; [] if there is no such topic.

        Raises `TransientError`, and `ConfigError` if the service refuses the login.
        """
        address = self.address
        return self._ask(lambda client: partition_states(client, address.scope, address.stream))

    def read_batch_refs(
        self,
        segment: str,
        start: int,
        end: int,
        most: int | None = None,
        most_raw: int | None = None,
    ) -> list[BatchRef]:
        """Return the batches that lie whole in [start, end). Reads their records, too.

        What a server has lost, or left of a batch, is among them as a torn batch. Raises
        `TransientError`, and `StorageError` if messages were removed.
        """
        partition = self._partition(partition_index(segment))
        return self._ask(
            lambda client: headers.read_batch_refs(
                client, partition, start, end, BatchBudget(most, most_raw)
            )
        )

    def count_known_headers(self, segment: str, marks: Sequence[HeaderDigest]) -> int:
        """Return how many of the headers *marks*, from the first on, the partition still has (R5).

        Raises `TransientError`.
        """

        async def ask(client: IggyRequester) -> int:
            address = self.address
            states = await partition_states(client, address.scope, address.stream)
            state = next((state for state in states if state.segment == segment), None)
            if state is None:
                return 0
            partition = self._partition(partition_index(segment))
            return await headers.count_known_messages(client, partition, marks, state)

        return self._ask(ask)

    def read_chunks(self, segment: str, start: int, end: int) -> Iterator[tuple[int, bytes]]:
        """Yield the batches of [start, end) in order, framed, in chunks of about 4 MiB.

        Both are where batches begin. Connects again after a failure. Raises `TransientError` once
        too many attempts have failed, and `StorageError` if messages were removed.
        """
        with _PartitionChunks(self, self._partition(partition_index(segment)), end) as chunks:
            while start < end:
                following, data = retry_call()(chunks.next_chunk, start)
                yield start, data
                start = following

    def _partition(self, index: int) -> Partition:
        return Partition(self.address.scope, self.address.stream, index)

    def _ask(self, ask: Callable[[IggyRequester], Awaitable[T]]) -> T:
        def connect_and_ask() -> T:
            with BlockingIggyClient(self.target) as client:
                return client.call(ask)

        try:
            return retry_call()(connect_and_ask)
        except IggyError as error:
            raise self.refused(error) from error

    def refused(
        self,
        error: IggyError,
        place: tuple[str, str] = ("pipeline", "from"),
        other: str = ", with --user, or in [login] of the configuration",
    ) -> Exception:
        """Return *error*, an answer of the service, as the error to raise.

        *place* is where the address was given, as in `ConfigError`; *other*, where else a login may
        be given.
        """
        if error.reason in _LOGIN_REFUSED:
            file, key = place
            remedy = f"{error}: give user and password, as in iggy://user:password@…{other}"
            return ConfigError(file, [Mistake(key, self.uri, remedy)])
        return error


class _PartitionChunks:
    """A connection that reads one partition: made when it is needed, and again after a failure."""

    def __init__(self, stream: IggyStreamReader, partition: Partition, end: int) -> None:
        self._stream = stream
        self._partition = partition
        self._end = end
        self._client: BlockingIggyClient | None = None
        self._reading: PartitionReading | None = None  # with what was polled and not yielded
        self._connection = ExitStack()  # closes the client

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def next_chunk(self, start: int) -> tuple[int, bytes]:
        """Return where the batches from *start* on end, and these, framed.

        Raises `TransientError`, `StorageError`, `ConfigError`, `IggyError`.
        """
        try:
            if self._client is None:
                client = BlockingIggyClient(self._stream.target)
                self._client = self._connection.enter_context(client)
            return self._client.call(lambda service: self._next_chunk(service, start))
        except BaseException as error:
            self._client = self._reading = None
            self._connection.close()
            if isinstance(error, IggyError):
                raise self._stream.refused(error) from error
            raise

    async def _next_chunk(self, service: IggyRequester, start: int) -> tuple[int, bytes]:
        size, parts = 0, list[bytes]()
        if self._reading is None:  # at the beginning, and after a failure
            self._reading = PartitionReading(service, self._partition, start)
        while size < _CHUNK_BYTES and self._reading.position < self._end:
            parts.append(frame_batch(*await self._reading.next_batch(self._end)))
            size += len(parts[-1])
        return self._reading.position, b"".join(parts)


def iggy_stream(
    address: IggyAddress, tls: ClientTls | None = None, login: Login | None = None
) -> IggyStreamReader:
    """Return the reader of the topic at *address*; *login* where that has no user and password."""
    user = None if login is None else (login.user, login.password)
    shown = replace(address, user="", password="")
    return IggyStreamReader(iggy_target(address, tls, user), shown)
