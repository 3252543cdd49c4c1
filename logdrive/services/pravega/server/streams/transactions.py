"""Transactions on streams: a commit appends their data to the stream, an abort discards it.

The data of a transaction is in segments of its own, one for each segment of the stream.

| status | event | next status | what is done then |
|---|---|---|---|
| open | commit | committing | its segments are merged into the stream's |
| committing | all merges are durable | committed | it is remembered for a while |
| open | abort, or its lease or its longest time is over | aborting | its segments are deleted |
| aborting | all deletions are durable | aborted | it is remembered for a while |

A commit is atomic for each segment. Several segments are merged one after another; after a crash
the next start finishes what is left. Where the stream was scaled since the transaction began, a
commit adds two epochs: one with the transaction's key ranges, which gets its data, and after it one
with the key ranges that the stream had.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import structlog
from msgspec.structs import replace

from logdrive.errors import LogdriveError
from logdrive.store.streams import key_ranges
from logdrive.store.streams.catalog import Catalog
from logdrive.store.streams.errors import (
    LeaseError,
    NoSuchTransactionError,
    PreconditionError,
    StreamSealedError,
    TransactionEndedError,
)
from logdrive.store.streams.state import (
    Put,
    Segment,
    Stream,
    StreamPut,
    StreamState,
    Transaction,
    TransactionPut,
)
from logdrive.wire.pravega.names import epoch_of_id, segment_name

MAX_LEASE_MS: Final = 600_000
_MAX_AGE_MS: Final = 24 * 3600 * 1000
"""Limit on the time that a transaction is open, however often its lease is renewed."""
_MAX_OPEN: Final = 10_000
"""Limit on the open transactions of one stream."""
_TICK_SECONDS: Final = 1.0
"""Seconds between two searches for expired leases."""
_log = structlog.get_logger("logdrive.store.streams")


class Transactions:
    """All transactions of a store. Methods raise the errors that those of `Streams` do.

    `run_lease_expiry` aborts those whose lease is over. Leases are not stored: after a start each
    open transaction has the longest one.
    """

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        # end of the lease by transaction (hex), in seconds on the monotonic clock
        self._leases: dict[str, float] = {}

    async def run_lease_expiry(self) -> None:
        """Abort transactions whose lease is over, until cancelled."""
        while True:
            await self._catalog.clock.sleep(_TICK_SECONDS)
            try:
                await self.abort_expired()
            except LogdriveError as error:
                _log.warning(
                    "expired transactions can't be aborted now, trying again", reason=str(error)
                )

    async def begin_transaction(
        self, scope: str, stream: str, lease_ms: int
    ) -> tuple[UUID, list[Segment]]:
        """Open a transaction; return its id and the segments that it writes to.

        The first 32 bits of the id are its epoch. Raises `StreamSealedError`; `LeaseError` for a
        lease out of range, or too many open transactions.
        """
        self._check_lease(lease_ms)
        async with self._catalog.turn():
            stream_state = await self._catalog.stream_state(scope, stream)
            if stream_state.stream.status != "active":
                raise StreamSealedError(f"stream {scope}/{stream} is sealed")
            if sum(not t.ended for t in stream_state.transactions.values()) >= _MAX_OPEN:
                raise LeaseError(f"{_MAX_OPEN} transactions are open")

            epoch = len(stream_state.stream.epochs) - 1
            segments = sorted(key_ranges.current_segments(stream_state.stream), key=lambda s: s.low)
            # the lower half stays positive: with a negative one the Python client loses the upper
            random = self._catalog.random
            transaction = UUID(
                int=(epoch & 0xFFFFFFFF) << 96
                | random.getrandbits(32) << 64
                | random.getrandbits(63)
            )

            opened = Transaction(
                epoch, self._catalog.clock.now_ms(), tuple(segment.id for segment in segments)
            )
            await self._catalog.commit_puts(
                [TransactionPut(scope, stream, transaction.hex, opened)]
            )
            self._renew(transaction.hex, lease_ms)
            return transaction, segments

    async def ping_transaction(
        self, scope: str, stream: str, transaction: UUID, lease_ms: int
    ) -> Transaction:
        """Renew the lease of a transaction that is open, for *lease_ms*; return the transaction."""
        self._check_lease(lease_ms)
        async with self._catalog.turn():
            _, record = await self._require(scope, stream, transaction)
            if record.status == "open":
                self._renew(transaction.hex, lease_ms)
            return record

    async def get_transaction(self, scope: str, stream: str, transaction: UUID) -> Transaction:
        """Return a transaction. Raises `NoSuchTransactionError`."""
        async with self._catalog.turn():
            return (await self._require(scope, stream, transaction))[1]

    async def list_ended(self, scope: str, stream: str) -> list[tuple[UUID, Transaction]]:
        """Return the transactions that have ended and are remembered."""
        async with self._catalog.turn():
            stream_state = await self._catalog.stream_state(scope, stream)
            return [
                (UUID(hex=key), record)
                for key, record in stream_state.transactions.items()
                if record.ended
            ]

    async def commit_transaction(self, scope: str, stream: str, transaction: UUID) -> None:
        """Append the transaction's data to the stream; no effect if it is committed already.

        Raises `TransactionEndedError` if it was aborted.
        """
        await self._end(scope, stream, transaction, commits=True)

    async def abort_transaction(self, scope: str, stream: str, transaction: UUID) -> None:
        """Discard the transaction's data; no effect if it is aborted already.

        Raises `TransactionEndedError` if it was committed.
        """
        await self._end(scope, stream, transaction, commits=False)

    async def abort_expired(self) -> None:
        """Abort the transactions whose lease, or whose longest time, is over."""
        now = self._catalog.clock.monotonic()
        wall_ms = self._catalog.clock.now_ms()
        async with self._catalog.turn() as state:
            opened = [
                (scope, name, key, record)
                for scope, name, stream_state in state.all_streams()
                for key, record in stream_state.transactions.items()
                if record.status == "open"
            ]
        # one that was opened before this process began has no lease yet
        live = {key: self._leases.get(key, now + MAX_LEASE_MS / 1000) for _, _, key, _ in opened}
        self._leases = live
        for scope, name, key, record in opened:
            if live[key] <= now or wall_ms - record.opened_ms > _MAX_AGE_MS:
                await self.abort_transaction(scope, name, UUID(hex=key))

    def _check_lease(self, lease_ms: int) -> None:
        if not 0 < lease_ms <= MAX_LEASE_MS:
            raise LeaseError(f"a lease is 1 to {MAX_LEASE_MS} ms, not {lease_ms}")

    def _renew(self, key: str, lease_ms: int) -> None:
        self._leases[key] = self._catalog.clock.monotonic() + lease_ms / 1000

    async def _require(
        self, scope: str, stream: str, transaction: UUID
    ) -> tuple[StreamState, Transaction]:
        stream_state = await self._catalog.stream_state(scope, stream)
        record = stream_state.transactions.get(transaction.hex)
        if record is None:
            raise NoSuchTransactionError(
                f"stream {scope}/{stream} has no transaction {transaction}"
            )
        return stream_state, record

    async def _end(self, scope: str, stream: str, transaction: UUID, *, commits: bool) -> None:
        async with self._catalog.turn():
            stream_state, record = await self._require(scope, stream, transaction)
            if record.ended:
                if (record.status == "committed") != commits:
                    raise TransactionEndedError(record.status == "committed")
                return
            if commits:
                puts = self._commit_puts(scope, stream, transaction, stream_state)
            else:
                puts = [
                    TransactionPut(
                        scope, stream, transaction.hex, replace(record, status="aborting")
                    )
                ]
            await self._catalog.commit_puts(puts)
            self._leases.pop(transaction.hex, None)

    def _commit_puts(
        self, scope: str, stream: str, transaction: UUID, stream_state: StreamState
    ) -> list[Put]:
        """Return the changes of the catalog that commit an open transaction."""
        record, stream_before = stream_state.transactions[transaction.hex], stream_state.stream
        current = key_ranges.current_segments(stream_before)
        targets = record.segments
        puts: list[Put] = []
        if set(targets) != {segment.id for segment in current}:
            # the stream was scaled meanwhile: the data goes to the first of two new epochs
            rolled = self._with_two_epochs(stream_before, record, current)
            targets = tuple(
                segment.id
                for segment in rolled.segments
                if epoch_of_id(segment.id) == len(stream_before.epochs)
            )
            puts.append(StreamPut(scope, stream, rolled))
        else:
            self._check_open(scope, stream, targets)
        return [
            *puts,
            TransactionPut(
                scope,
                stream,
                transaction.hex,
                replace(record, status="committing", targets=targets),
            ),
        ]

    def _with_two_epochs(
        self, stream: Stream, transaction: Transaction, current: list[Segment]
    ) -> Stream:
        """Return *stream* with two more epochs: the transaction's key ranges, then *current*'s."""
        now_ms = self._catalog.clock.now_ms()
        wanted = [
            (s.low, s.high)
            for s in (key_ranges.segment_of(stream, number) for number in transaction.segments)
        ]
        once = key_ranges.scale_stream(stream, [s.id for s in current], wanted, now_ms)
        return key_ranges.scale_stream(
            once,
            [s.id for s in key_ranges.current_segments(once)],
            [(s.low, s.high) for s in current],
            now_ms,
        )

    def _check_open(self, scope: str, stream: str, segments: Sequence[int]) -> None:
        """Raise `PreconditionError` unless all *segments* accept appends."""
        for number in segments:
            info = self._catalog.store.info(segment_name(scope, stream, number))
            if info is None or info.sealed:
                raise PreconditionError(
                    f"segment {number} accepts no appends: a client sealed or deleted it"
                )
