"""MergeSegments and MergeSegmentsBatch: sources become the end of their target, and vanish
(specification, sections 3 and 0).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from logdrive.model.numbers import ABSENT
from logdrive.services.pravega.server.segments.appending import HangUpError
from logdrive.store.engine import Store
from logdrive.store.errors import (
    NoSuchSegmentError,
    OverloadedError,
    SegmentSealedError,
    SegmentTruncatedError,
)
from logdrive.store.index.index import SegmentInfo
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

_REMEMBERED: Final = 65_536
_MOST: Final = (1 << 63) - 1


class Merger:
    """Merges for all connections of a face.

    The sources merged last are remembered, so that a merge asked for again is answered again.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._merged: OrderedDict[str, str] = OrderedDict()

    def forget(self, segment: str) -> None:
        """Take note that *segment* was not merged, or is a new one of that name."""
        self._merged.pop(segment, None)

    async def merge(self, request: MergeSegments) -> Message:
        """Merge one source, with the conditions and changes that come with it.

        Raises what the store does, `HangUpError`.
        """
        store, target, source = self._store, request.target, request.source
        if store.info(source) is None and self._merged.get(source) == target:
            return SegmentsMerged(request.request_id, target, source, _info(store, target).length)
        if request.updates and _info(store, target).sealed:
            raise SegmentSealedError(target)
        values: dict[UUID, int] = {}
        for update in request.updates:
            value = _changed(
                values.get(update.attribute, store.submitted_number(target, update.attribute)),
                update,
            )
            if value is None:
                for decisive in request.updates:  # what decided is durable when it is told
                    await store.number(target, decisive.attribute)
                return SegmentAttributeUpdated(request.request_id, False)
            values[update.attribute] = value
        return SegmentsMerged(
            request.request_id, target, source, await self._submit(target, source, values)
        )

    async def merge_all(self, request: MergeSegmentsBatch) -> Message:
        """Merge several sources, in order; one that is missing counts as merged."""
        store, target = self._store, request.target
        submitted = [
            (source, await self._submit_if_there(target, source)) for source in request.sources
        ]
        length = _info(store, target).length
        merged: list[MergedSource] = []
        for source, future in submitted:
            length = length if future is None else await future
            merged.append(MergedSource(source, length))
        return SegmentsBatchMerged(request.request_id, target, tuple(merged))

    async def _submit_if_there(self, target: str, source: str) -> "asyncio.Future[int] | None":
        """Submit one merge of several, and wait for room here.

        A second try of all would take those for merged that are submitted and not durable.
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
        # from now on, since nobody may wait for the answer any more when it comes
        self._merged[source] = target
        if len(self._merged) > _REMEMBERED:
            self._merged.popitem(last=False)
        future.add_done_callback(
            lambda done: self.forget(source) if not done.cancelled() and done.exception() else None
        )
        return future


def _info(store: Store, segment: str) -> SegmentInfo:
    info = store.info(segment)
    if info is None:
        raise NoSuchSegmentError(segment)
    return info


def _changed(current: int, update: AttributeUpdate) -> int | None:
    """Return what *update* makes of an attribute that is *current*; None where its condition does
    not hold.
    """
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
    if outcome is not None and not ABSENT <= outcome <= _MOST:
        raise ValueError(f"{outcome} is no value of 64 bits")
    return outcome
