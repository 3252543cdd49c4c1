"""Whether a stream is at the store that tables were filled from.

Each batch's header names the store that its receiver appended to, and `batches.store` keeps it. A
segment that has none of the headers which the tables know may be that of a store that went back
(rule R5), or, by a wrong address, a segment of the same name elsewhere. Read as the former, lines
of foreign peers would be in the tables twice once the address is right again.

Streams are told apart as far as their receivers name their stores otherwise: those with the same
`store_id`, or the same `uri` in `[sink]`, are one store to it.
"""

import os
from collections.abc import Sequence
from typing import Final

from logdrive.errors import ConfigError, Mistake
from logdrive.model.units import KIB
from logdrive.pipeline.bronze.history import KnownHeader, read_header_chain, read_stores
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.services.reader import SegmentState, ServiceReader

_LOOK_BYTES: Final = 64 * KIB  # stored bytes of the batches that are asked which store it is


def find_valid(
    stream: ServiceReader, state: SegmentState, chain: Sequence[KnownHeader]
) -> Sequence[KnownHeader]:
    """Return the headers of *chain*, from the first on, that are still in the segment's past."""
    kept = [known for known in chain if known.offset >= state.start]
    if kept:
        valid = stream.count_known_headers(state.segment, kept)
        # headers before those kept were cut off and can't be asked for: they count if any is valid
        return chain[: len(chain) - len(kept) + valid] if valid else ()
    # all were cut off: the length alone tells
    return chain if chain and chain[-1].next <= state.length else ()


def refuse_other_store(
    stream: ServiceReader,
    batches: AppendTable,
    state: SegmentState,
    uri: str,
    chain: Sequence[KnownHeader],
    valid: Sequence[KnownHeader],
) -> None:
    """Raise `ConfigError` if the segment is of another store than the one the tables have it from.

    *chain* are the headers that lead up to the end of *batches* in the segment, and *valid* those
    that `find_valid` found. The store of the stream's last commit is the tables', too: it replaced
    theirs, and had nothing in this segment yet. Where either side says nothing, as an empty
    segment, nothing is raised.
    """
    if not chain or any(one.offset >= state.start for one in valid):
        return
    known = read_stores(batches, stream.name, chain)
    there = _stores_in(stream, state)
    if not known or not there or known & there:
        return
    directory = os.path.dirname(os.path.dirname(batches.path))
    remedy = (
        f"{state.segment} there is of store {_listed(there)}, and the tables in {directory} have "
        f"it from store {_listed(known)}: correct the address, or fill another directory; if the "
        "store was replaced for good, go on with `logdrive pipeline run --replaced-store`"
    )
    raise ConfigError("pipeline", [Mistake("from", uri, remedy)])


def require_same_store(
    stream: ServiceReader, batches: AppendTable, states: Sequence[SegmentState], uri: str
) -> None:
    """Raise `ConfigError` as `refuse_other_store`, for the segments *states* of *stream*."""
    for state in states:
        chain = read_header_chain(batches, state.segment, batches.next_offset(state.segment))
        valid = find_valid(stream, state, chain)
        refuse_other_store(stream, batches, state, uri, chain, valid)


def _stores_in(stream: ServiceReader, state: SegmentState) -> set[str]:
    """Return the stores that the segment's first batches name; none if it is empty."""
    if state.start >= state.length:
        return set()
    refs = stream.read_batch_refs(state.segment, state.start, state.length, _LOOK_BYTES)
    return {ref.header.store for ref in refs if ref.header is not None and ref.header.store}


def _listed(stores: set[str]) -> str:
    first, *others = sorted(stores)
    return f"{first} (and {len(others)} more)" if others else first
