"""Reconciles segments with their stream's recorded state.

Doing so again is harmless, so whatever was interrupted is done at the next start.
"""

import asyncio
from collections.abc import Callable
from typing import Any, Final
from uuid import UUID, uuid5

import structlog

from logdrive.errors import LogdriveError
from logdrive.model.framing import frame_event
from logdrive.model.identity import NAMESPACE
from logdrive.model.numbers import ABSENT
from logdrive.store.engine import Store
from logdrive.store.errors import (
    NoSuchSegmentError,
    OverloadedError,
    SegmentSealedError,
    SegmentTruncatedError,
    StoreDamagedError,
)
from logdrive.store.streams.key_ranges import current_segments, segments_before
from logdrive.store.streams.names import kv_table_segment, mark_stream
from logdrive.store.streams.state import (
    CURRENT,
    REMOVED,
    KeyValueTable,
    Stream,
    StreamState,
    Watermark,
)
from logdrive.wire.pravega.attributes import TABLE
from logdrive.wire.pravega.names import segment_name, transaction_name
from logdrive.wire.pravega.watermarks import encode_watermark

_REFUSALS: Final = (
    NoSuchSegmentError,
    SegmentSealedError,
    SegmentTruncatedError,
    StoreDamagedError,
)
_MARKING: Final = uuid5(NAMESPACE, "_watermarks")
"""The writer of mark streams: its number in one is that of the last watermark appended."""
_log = structlog.get_logger("logdrive.store.streams")

Submitted = list["asyncio.Future[Any]"]


def reconcile_kv_table(store: Store, scope: str, name: str, table: KeyValueTable) -> Submitted:
    """Submit what is missing of one key-value table.

    Return futures that are done once everything is durable.
    """
    futures: Submitted = []
    for number in range(table.first, table.first + table.partitions):
        segment = kv_table_segment(scope, name, number)
        exists = store.info(segment) is not None
        if table.status == "deleting" and exists:
            futures.append(store.delete(segment))
        elif table.status == "active":
            if not exists:
                futures.append(store.create(segment))
            if not exists or store.attribute(segment, TABLE) == ABSENT:
                try:
                    futures.append(
                        store.update(segment, TABLE, ABSENT, 1 + table.primary + table.secondary)
                    )
                except SegmentSealedError as error:  # by a client
                    _log.warning(
                        "a table's segment was changed",
                        table=f"{scope}/{name}",
                        reason=str(error),
                    )
    return futures


def reconcile_watermark(
    store: Store, scope: str, stream: str, mark: Stream, watermark: Watermark
) -> Submitted:
    """Submit the append of a stream's latest *watermark* to its *mark* stream, unless it is there.

    Return futures as above.
    """
    for segment in current_segments(mark):
        name = segment_name(scope, mark_stream(stream), segment.id)
        if store.submitted_number(name, _MARKING) >= watermark.number:
            break
        cut = [(passed.segment, passed.low, passed.high, passed.offset) for passed in watermark.cut]
        event = frame_event(encode_watermark(watermark.low, watermark.high, cut))
        try:
            return [
                store.append(
                    name, event, writer=_MARKING, expected=None, number=watermark.number, events=1
                )
            ]
        except _REFUSALS as error:  # sealed or deleted by a client
            _log.warning(
                "a stream's watermark can't be written",
                stream=f"{scope}/{stream}",
                reason=str(error),
            )
    return []


async def reconcile_stream(
    store: Store, scope: str, stream: str, stream_state: StreamState
) -> None:
    """Make durable what is missing of one stream; nothing else of it may be pending.

    Where not all of that may be pending at once, one part follows the other.
    """
    while True:
        reconciler = Reconciler(store, scope, stream, stream_state)
        refusal: OverloadedError | None = None
        try:
            reconciler.submit_changes()
        except OverloadedError as error:
            refusal = error
        await asyncio.gather(*reconciler.submitted)
        if refusal is None:
            return
        await store.room(refusal.size)


class Reconciler:
    """Submits what is missing of one stream, in the order in which it must become durable.

    Nothing else of the stream may be pending.
    """

    def __init__(self, store: Store, scope: str, stream: str, stream_state: StreamState) -> None:
        self._store = store
        self._state = stream_state
        self._scope = scope
        self._name = stream
        # segments whose creation was submitted
        self._made: dict[str, None] = {}
        self.submitted: Submitted = []

    def submit_changes(self) -> Submitted:
        """Return futures that are done once everything is durable."""
        if self._state.stream.status == "deleting":
            self._delete_all()
            return self.submitted
        cut_off = {
            segment.id for segment in segments_before(self._state.stream, self._state.stream.cut)
        }
        cut_off |= {s.id for s in self._state.stream.segments if s.until == REMOVED}

        # successors exist before their predecessors are sealed: appends then find them at once
        for segment in self._state.stream.segments:
            if segment.id not in cut_off:
                self._make(self._segment(segment.id))
        # merges come before the seal of their targets
        self._transactions()
        for segment in self._state.stream.segments:
            if segment.id in cut_off:
                self._delete(self._segment(segment.id))
            elif segment.until != CURRENT or self._state.stream.status == "sealed":
                self._seal(self._segment(segment.id))
        for number, offset in self._state.stream.cut.items():
            self._truncate(self._segment(number), offset)
        return self.submitted

    def _transactions(self) -> None:
        for key, transaction in self._state.transactions.items():
            if transaction.ended:
                continue
            names = [
                (segment, transaction_name(self._segment(segment), UUID(hex=key)))
                for segment in transaction.segments
            ]
            if transaction.status == "open":
                for _, name in names:
                    self._make(name)
            elif transaction.status == "committing":
                for target, (_, name) in zip(transaction.targets, names, strict=True):
                    if self._store.info(name) is not None:  # else merged before a crash
                        self._do(self._store.merge, self._segment(target), name)
            elif transaction.status == "aborting":
                for _, name in names:
                    self._delete(name)

    def _delete_all(self) -> None:
        for segment in self._state.stream.segments:
            name = self._segment(segment.id)
            self._delete(name)
            for key in self._state.transactions:
                self._delete(transaction_name(name, UUID(hex=key)))

    def _segment(self, number: int) -> str:
        return segment_name(self._scope, self._name, number)

    def _make(self, name: str) -> None:
        if self._store.info(name) is None:
            self._made[name] = None
            self.submitted.append(self._store.create(name))

    def _seal(self, name: str) -> None:
        # its creation may be submitted and not durable: `info` does not know it then
        info = self._store.info(name)
        if name in self._made or (info is not None and not info.sealed):
            self._do(self._store.seal, name)

    def _truncate(self, name: str, offset: int) -> None:
        info = self._store.info(name)
        if info is not None and info.start < offset:
            self._do(self._store.truncate, name, offset)

    def _delete(self, name: str) -> None:
        if self._store.info(name) is not None:
            self._do(self._store.delete, name)

    def _do(self, change: "Callable[..., asyncio.Future[Any]]", *arguments: object) -> None:
        """Submit one change.

        If clients or damage have made it impossible, it is logged and skipped, so that the stream
        does not hang.
        """
        try:
            self.submitted.append(change(*arguments))
        except _REFUSALS as error:
            refusal: LogdriveError = error
            _log.warning(
                "a segment differs from its stream's state",
                stream=f"{self._scope}/{self._name}",
                reason=str(refusal),
            )
