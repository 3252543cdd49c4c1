"""MergeSegments and MergeSegmentsBatch: sources are appended to their target and deleted.

See docs/protocols/pravega.md#segment-lifecycle.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.server.segment_info import require_info
from logdrive.services.pravega.server.segments.appending import HangUpError
from logdrive.store.engine import Store
from logdrive.store.errors import (
    NoSuchSegmentError,
    OverloadedError,
    SegmentSealedError,
    SegmentTruncatedError,
)
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.segments import (
    ACCUMULATE,
    REPLACE,
    REPLACE_IF_EQUALS,
    REPLACE_IF_GREATER,
    SET_IF_ABSENT,
    AttributeUpdate,
    MergedSource,
    MergeSegments,
    MergeSegmentsBatch,
    SegmentAttributeUpdated,
    SegmentsBatchMerged,
    SegmentsMerged,
)

_REMEMBERED_MERGES: Final = 65_536
_MAX_VALUE: Final = (1 << 63) - 1
"""Limit on the value of an attribute: a signed integer of 64 bits."""


class Merger:
    """Merges segments for all connections of a face.

    It remembers the sources merged last: a client that had no answer repeats its request.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        # target by merged source, the oldest first
        self._merged: OrderedDict[str, str] = OrderedDict()

    def forget_merged(self, segment: str) -> None:
        """Forget that *segment* was merged: the merge failed, or the segment was created anew."""
        self._merged.pop(segment, None)

    async def merge_one(self, request: MergeSegments) -> Message:
        """Merge one source, if the conditions on the target's attributes hold, and change these.

        Raises the store's errors, and `HangUpError`.
        """
        store, target, source = self._store, request.target, request.source
        # asked again by a client that had no answer: it is done
        if store.info(source) is None and self._merged.get(source) == target:
            return SegmentsMerged(
                request.request_id, target, source, require_info(store, target).length
            )

        if request.updates and require_info(store, target).sealed:
            raise SegmentSealedError(target)
        values: dict[UUID, int] = {}
        for update in request.updates:
            value = _updated_value(
                values.get(update.attribute, store.submitted_number(target, update.attribute)),
                update,
            )
            if value is None:
                # what the answer rests on must be durable first
                for decisive in request.updates:
                    await store.number(target, decisive.attribute)
                return SegmentAttributeUpdated(request.request_id, False)
            values[update.attribute] = value
        return SegmentsMerged(
            request.request_id, target, source, await self._submit(target, source, values)
        )

    async def merge_batch(self, request: MergeSegmentsBatch) -> Message:
        """Merge several sources in order; a missing one counts as merged."""
        store, target = self._store, request.target
        submitted = [
            (source, await self._submit_if_exists(target, source)) for source in request.sources
        ]
        length = require_info(store, target).length
        merged: list[MergedSource] = []
        for source, future in submitted:
            length = length if future is None else await future
            merged.append(MergedSource(source, length))
        return SegmentsBatchMerged(request.request_id, target, tuple(merged))

    async def _submit_if_exists(self, target: str, source: str) -> "asyncio.Future[int] | None":
        """Submit one merge of several; return None where *source* does not exist.

        It waits for room by itself: if the whole request were tried again, the sources submitted
        before would count as merged, which are not durable.
        """
        while True:
            try:
                return self._submit(target, source)
            except OverloadedError as error:
                await self._store.room(error.size)
            except NoSuchSegmentError as error:
                if error.segment == target:
                    raise
                return None

    def _submit(
        self, target: str, source: str, values: Mapping[UUID, int] | None = None
    ) -> "asyncio.Future[int]":
        try:
            future = self._store.merge(target, source, values)
        except SegmentTruncatedError as error:
            raise HangUpError(f"a merge of {source}, which does not begin at 0") from error
        # noted now: the connection may have ended when the merge is durable
        self._merged[source] = target
        if len(self._merged) > _REMEMBERED_MERGES:
            self._merged.popitem(last=False)
        future.add_done_callback(
            lambda done: (
                self.forget_merged(source) if not done.cancelled() and done.exception() else None
            )
        )
        return future


def _updated_value(current: int, update: AttributeUpdate) -> int | None:
    """Return an attribute's value after *update*; None where its condition does not hold."""
    new, old = update.new_value, update.old_value
    outcomes: dict[int, int | None] = {
        SET_IF_ABSENT: new if current == ABSENT else None,
        REPLACE: new,
        REPLACE_IF_GREATER: new if new > current else None,
        ACCUMULATE: new + (0 if current == ABSENT else current),
        REPLACE_IF_EQUALS: new if current == old else None,
    }
    if update.update_type not in outcomes:
        raise ValueError(f"an attribute update of type {update.update_type}")
    outcome = outcomes[update.update_type]
    if outcome is not None and not ABSENT <= outcome <= _MAX_VALUE:
        raise ValueError(f"{outcome} does not fit 64 bits")
    return outcome
