"""The controller's methods for transactions (docs/protocols/pravega-controller.md)."""

from typing import Final

from logdrive.services.pravega.server.controller import convert
from logdrive.services.pravega.server.controller.convert import NO_TOKEN
from logdrive.services.pravega.server.streams.transactions import Transactions
from logdrive.services.pravega.server.streams.writer_times import WriterTimes
from logdrive.wire.pravega.controller import controller_pb2 as pb

_NO_TIME: Final = -(1 << 63)
"""The timestamp of a commit whose writer notes no times."""


class TransactionMethods:
    """Answers calls about the transactions of one store; commits may note a writer's time."""

    def __init__(self, transactions: Transactions, writers: WriterTimes) -> None:
        self._transactions = transactions
        self._writers = writers

    async def create_transaction(self, request: pb.CreateTxnRequest) -> pb.CreateTxnResponse:
        """Open a transaction."""
        info = request.streamInfo
        transaction, segments = await self._transactions.begin_transaction(
            info.scope, info.stream, request.lease
        )
        active = [convert.segment_range_message(info, segment) for segment in segments]
        return pb.CreateTxnResponse(
            txnId=convert.transaction_id_message(transaction),
            activeSegments=active,
            delegationToken=NO_TOKEN,
        )

    async def ping_transaction(self, request: pb.PingTxnRequest) -> pb.PingTxnStatus:
        """Renew a transaction's lease."""
        info = request.streamInfo
        record = await self._transactions.ping_transaction(
            info.scope, info.stream, convert.parse_transaction_id(request.txnId), request.lease
        )
        return pb.PingTxnStatus(
            status={"open": "OK", "committed": "COMMITTED"}.get(record.status, "ABORTED")
        )

    async def commit_transaction(self, request: pb.TxnRequest) -> pb.TxnStatus:
        """Append a transaction's data to its stream, and note the writer's time if there is one."""
        info, transaction = request.streamInfo, convert.parse_transaction_id(request.txnId)
        await self._transactions.commit_transaction(info.scope, info.stream, transaction)
        if request.writerId and request.timestamp != _NO_TIME:
            await self._writers.note_commit_time(
                info.scope, info.stream, request.writerId, request.timestamp, transaction
            )
        return pb.TxnStatus(status="SUCCESS")

    async def abort_transaction(self, request: pb.TxnRequest) -> pb.TxnStatus:
        """Discard a transaction's data."""
        info = request.streamInfo
        await self._transactions.abort_transaction(
            info.scope, info.stream, convert.parse_transaction_id(request.txnId)
        )
        return pb.TxnStatus(status="SUCCESS")

    async def check_transaction_state(self, request: pb.TxnRequest) -> pb.TxnState:
        """Return a transaction's state."""
        info = request.streamInfo
        record = await self._transactions.get_transaction(
            info.scope, info.stream, convert.parse_transaction_id(request.txnId)
        )
        return pb.TxnState(state=record.status.upper())

    async def list_completed_transactions(
        self, request: pb.ListCompletedTxnRequest
    ) -> pb.ListCompletedTxnResponse:
        """List the transactions that have ended and are remembered, and how each ended."""
        info = request.streamInfo
        ended = await self._transactions.list_ended(info.scope, info.stream)
        listed = [
            pb.TxnResponse(txnId=convert.transaction_id_message(key), status=record.status.upper())
            for key, record in ended
        ]
        return pb.ListCompletedTxnResponse(response=listed)
