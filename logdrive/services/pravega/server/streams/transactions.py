"""Transactions on streams: what is written in one goes to segments of its own, and into the stream
when it commits, or nowhere.

Per segment a commit is atomic; over several segments it is done in one step after another, and
finished at the next start if need be. Where the stream was scaled meanwhile, a commit makes two
epochs: one with the key ranges of the transaction, which what was written in it is put into, and
one with those that the stream had.
"""

from collections.abc import Sequence
from typing import Final
from uuid import UUID

import structlog
from msgspec.structs import replace

from logdrive.errors import LogdriveError
from logdrive.store.streams import key_ranges as layout
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
_MAX_OPEN: Final = 10_000
_TICK_SECONDS: Final = 1.0
_log = structlog.get_logger("logdrive.store.streams")


class Transactions:
    """All transactions of a store.

    `run` aborts those whose lease ran out; after a start every lease begins anew.
    """

    def __init__(self, catalogue: Catalog) -> None:
        self._catalogue = catalogue
        self._leases: dict[str, float] = {}

    async def run(self) -> None:
        """Abort what nobody keeps alive, until cancelled."""
        while True:
            await self._catalogue.clock.sleep(_TICK_SECONDS)
            try:
                await self.expire()
            except LogdriveError as error:
                _log.warning(
                    "transactions whose lease is over stay open for now", reason=str(error)
                )

    async def begin(self, scope: str, stream: str, lease_ms: int) -> tuple[UUID, list[Segment]]:
        """Open a transaction; return its id, whose first 32 bits are its epoch, and the segments
        that it writes to.
        """
        self._check_lease(lease_ms)
        async with self._catalogue.turn():
            place = await self._catalogue.stream_state(scope, stream)
            if place.stream.status != "active":
                raise StreamSealedError(f"stream {scope}/{stream} is sealed")
            if sum(not t.ended for t in place.transactions.values()) >= _MAX_OPEN:
                raise LeaseError(f"{_MAX_OPEN} transactions are open")
            epoch, segments = (
                len(place.stream.epochs) - 1,
                sorted(layout.current_segments(place.stream), key=lambda s: s.low),
            )
            # the lower half stays positive: a negative one loses the upper in the Python client
            random = self._catalogue.random
            found = UUID(
                int=(epoch & 0xFFFFFFFF) << 96
                | random.getrandbits(32) << 64
                | random.getrandbits(63)
            )
            made = Transaction(
                epoch, self._catalogue.clock.now_ms(), tuple(segment.id for segment in segments)
            )
            await self._catalogue.commit_puts([TransactionPut(scope, stream, found.hex, made)])
            self._renew(found.hex, lease_ms)
            return found, segments

    async def ping(self, scope: str, stream: str, transaction: UUID, lease_ms: int) -> Transaction:
        """Keep a transaction alive for *lease_ms* more; return what it is."""
        self._check_lease(lease_ms)
        async with self._catalogue.turn():
            _, found = await self._found(scope, stream, transaction)
            if found.status == "open":
                self._renew(transaction.hex, lease_ms)
            return found

    async def state(self, scope: str, stream: str, transaction: UUID) -> Transaction:
        """Return what a transaction is."""
        async with self._catalogue.turn():
            return (await self._found(scope, stream, transaction))[1]

    async def ended(self, scope: str, stream: str) -> list[tuple[UUID, Transaction]]:
        """Return the transactions that are over and not forgotten."""
        async with self._catalogue.turn():
            place = await self._catalogue.stream_state(scope, stream)
            return [
                (UUID(hex=key), found) for key, found in place.transactions.items() if found.ended
            ]

    async def commit(self, scope: str, stream: str, transaction: UUID) -> None:
        """Put what was written in the transaction at the stream's end.

        It may be committed already.
        """
        await self._ending(scope, stream, transaction, commits=True)

    async def abort(self, scope: str, stream: str, transaction: UUID) -> None:
        """Forget what was written in the transaction. It may be aborted already."""
        await self._ending(scope, stream, transaction, commits=False)

    async def expire(self) -> None:
        """Abort the transactions whose lease, or whose time, is over."""
        now, wall = self._catalogue.clock.monotonic(), self._catalogue.clock.now_ms()
        async with self._catalogue.turn() as state:
            opened = [
                (scope, name, key, found)
                for scope, name, place in state.all_streams()
                for key, found in place.transactions.items()
                if found.status == "open"
            ]
        live = {key: self._leases.get(key, now + MAX_LEASE_MS / 1000) for _, _, key, _ in opened}
        self._leases = live
        for scope, name, key, found in opened:
            if live[key] <= now or wall - found.opened_ms > _MAX_AGE_MS:
                await self.abort(scope, name, UUID(hex=key))

    # ---------------------------------------------------------------------------------------------

    def _check_lease(self, lease_ms: int) -> None:
        if not 0 < lease_ms <= MAX_LEASE_MS:
            raise LeaseError(f"a lease has 1 to {MAX_LEASE_MS} ms, not {lease_ms}")

    def _renew(self, key: str, lease_ms: int) -> None:
        self._leases[key] = self._catalogue.clock.monotonic() + lease_ms / 1000

    async def _found(
        self, scope: str, stream: str, transaction: UUID
    ) -> tuple[StreamState, Transaction]:
        place = await self._catalogue.stream_state(scope, stream)
        found = place.transactions.get(transaction.hex)
        if found is None:
            raise NoSuchTransactionError(
                f"stream {scope}/{stream} has no transaction {transaction}"
            )
        return place, found

    async def _ending(self, scope: str, stream: str, transaction: UUID, *, commits: bool) -> None:
        async with self._catalogue.turn():
            place, found = await self._found(scope, stream, transaction)
            if found.ended:
                if (found.status == "committed") != commits:
                    raise TransactionEndedError(found.status == "committed")
                return
            if commits:
                puts = self._committing(scope, stream, transaction, place)
            else:
                puts = [
                    TransactionPut(
                        scope, stream, transaction.hex, replace(found, status="aborting")
                    )
                ]
            await self._catalogue.commit_puts(puts)
            self._leases.pop(transaction.hex, None)

    def _committing(
        self, scope: str, stream: str, transaction: UUID, place: StreamState
    ) -> list[Put]:
        found, now = place.transactions[transaction.hex], place.stream
        there = layout.current_segments(now)
        targets = found.segments
        puts: list[Put] = []
        if set(targets) != {segment.id for segment in there}:
            rolled = self._rolled(now, found, there)
            targets = tuple(
                segment.id
                for segment in rolled.segments
                if epoch_of_id(segment.id) == len(now.epochs)
            )
            puts.append(StreamPut(scope, stream, rolled))
        else:
            self._check_open(scope, stream, targets)
        return [
            *puts,
            TransactionPut(
                scope, stream, transaction.hex, replace(found, status="committing", targets=targets)
            ),
        ]

    def _rolled(self, stream: Stream, transaction: Transaction, there: list[Segment]) -> Stream:
        """Return *stream* with an epoch of the transaction's key ranges, and one of those that are
        *there* now, after it.
        """
        now_ms = self._catalogue.clock.now_ms()
        wanted = [
            (s.low, s.high)
            for s in (layout.segment_of(stream, number) for number in transaction.segments)
        ]
        once = layout.scale_stream(stream, [s.id for s in there], wanted, now_ms)
        return layout.scale_stream(
            once,
            [s.id for s in layout.current_segments(once)],
            [(s.low, s.high) for s in there],
            now_ms,
        )

    def _check_open(self, scope: str, stream: str, segments: Sequence[int]) -> None:
        for number in segments:
            info = self._catalogue.store.info(segment_name(scope, stream, number))
            if info is None or info.sealed:
                raise PreconditionError(
                    f"segment {number} takes nothing: somebody sealed or removed it"
                )
