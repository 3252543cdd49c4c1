"""Follow-up changes: what is written once everything that a stream's state required is durable."""

from typing import Final

import msgspec

from logdrive.store.streams.key_ranges import segments_before
from logdrive.store.streams.state import (
    REMOVED,
    Put,
    Stream,
    StreamPut,
    StreamState,
    Transaction,
    TransactionPut,
)

KEPT: Final = 1000
"""Limit on ended transactions of a stream that are remembered, for queries of their result."""

_ENDING: Final = ("committing", "aborting")


def follow_up_puts(scope: str, name: str, stream_state: StreamState) -> list[Put]:
    """Return the puts that say that nothing is left to do; none if nothing was."""
    stream = stream_state.stream
    if stream.status == "deleting":
        empty = msgspec.structs.replace(stream, segments=(), epochs=(), status="deleted", cut={})
        return [
            *(TransactionPut(scope, name, key, None) for key in stream_state.transactions),
            StreamPut(scope, name, empty),
        ]
    puts: list[Put] = [
        TransactionPut(scope, name, key, _ended(transaction))
        for key, transaction in stream_state.transactions.items()
        if transaction.status in _ENDING
    ]
    if puts:  # the oldest ended transactions are forgotten for those that end now
        over = [key for key, transaction in stream_state.transactions.items() if transaction.ended]
        puts += [
            TransactionPut(scope, name, key, None)
            for key in over[: max(0, len(over) + len(puts) - KEPT)]
        ]
    # an open transaction still names its segments
    used = {
        number
        for transaction in stream_state.transactions.values()
        if transaction.status == "open"
        for number in transaction.segments
    }
    cut_off = {segment.id for segment in segments_before(stream, stream.cut)} - used
    cut_off |= {segment.id for segment in stream.segments if segment.until == REMOVED}
    if cut_off:
        puts.append(StreamPut(scope, name, _without(stream, cut_off)))
    return puts


def _ended(transaction: Transaction) -> Transaction:
    status = "committed" if transaction.status == "committing" else "aborted"
    return msgspec.structs.replace(transaction, status=status)


def _without(stream: Stream, cut_off: set[int]) -> Stream:
    return msgspec.structs.replace(
        stream, segments=tuple(segment for segment in stream.segments if segment.id not in cut_off)
    )
