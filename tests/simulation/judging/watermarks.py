"""The judge of watermarks, by what was written and noted; it does not know how they are made."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from logdrive.services.pravega.client.client import connect_segment_store
from logdrive.services.pravega.client.controller import StreamSegment
from logdrive.wire.pravega.names import segment_name
from tests.simulation.hosts.programs import FACE_PORT, SCOPE
from tests.simulation.peers.tickers import (
    PROMISE,
    RECORD_BYTES,
    STREAM,
    Event,
    Spell,
    Ticker,
    watermarks_of,
)
from tests.simulation.plan import LONG_PATIENCE_MS
from tests.simulation.promises import BrokenPromise
from tests.support.memory.transport import MemoryNetwork
from tests.support.watermarks import Part, Watermark


async def marked(network: MemoryNetwork, store: str) -> tuple[list[Watermark], dict[int, bytes]]:
    """Return all watermarks, and the contents of the segments that they refer to, by id.

    Segments that were deleted are left out. Raises `TransientError`.
    """
    async with connect_segment_store(network.host("reader"), store, FACE_PORT) as client:
        marks = await watermarks_of(client)
        contents: dict[int, bytes] = {}
        for segment in dict.fromkeys(part.segment for mark in marks for part in mark.place):
            state = await client.segment_info(segment_name(SCOPE, STREAM, segment))
            if state is not None:  # whole, or deleted: these streams are cut only between segments
                contents[segment] = b"".join(
                    [piece async for piece in client.read_range(state.segment, 0, state.length)]
                )
    return marks, contents


def overdue(tickers: Sequence[Ticker], marks: Sequence[Watermark]) -> bool:
    """Return whether another watermark must come, once silent writers are not waited for."""
    present = [ticker.spell.noted for ticker in tickers if ticker.spell is not None]
    low = marks[-1].low if marks else -1
    waits = all if tickers[0].patience_ms == LONG_PATIENCE_MS else any
    return bool(present) and waits(noted > low for noted in present)


def judge_watermarks(
    tickers: Sequence[Ticker], marks: Sequence[Watermark], contents: Mapping[int, bytes]
) -> None:
    """Raise `BrokenPromise` unless *marks* say what *tickers* noted, and nothing else."""
    asked = {time: None for ticker in tickers for time in ticker.asked}
    for mark in marks:
        _place(mark, contents)
        if mark.low > mark.high or mark.low not in asked or mark.high not in asked:
            raise BrokenPromise(PROMISE, f"nobody noted {mark.low} or {mark.high}, as {mark} says")

    # time and place only rise
    for one, other in pairwise(marks):
        if other.low <= one.low or not all(
            _reached(part.segment, part, part.offset, other) for part in one.place
        ):
            raise BrokenPromise(PROMISE, f"{other} goes back behind {one}")

    # with a short patience a silent writer may be passed by
    for ticker in tickers if tickers[0].patience_ms == LONG_PATIENCE_MS else ():
        for spell in ticker.spells:
            _waited_for(ticker, spell, marks[spell.since : spell.until], contents)
    if overdue(tickers, marks):
        noted = [
            (ticker.name, ticker.spell.noted) for ticker in tickers if ticker.spell is not None
        ]
        raise BrokenPromise(PROMISE, f"none comes after {marks[-1:]}, although {noted} were noted")


def _place(mark: Watermark, contents: Mapping[int, bytes]) -> None:
    """Require that the place of *mark* covers all keys, and lies between events."""
    bounds = [0.0, *(part.high for part in mark.place)]
    if [part.low for part in mark.place] != bounds[:-1] or bounds[-1] != 1.0:
        raise BrokenPromise(PROMISE, f"{mark} is no whole place")
    for part in mark.place:
        if part.offset % RECORD_BYTES or part.offset < 0:
            raise BrokenPromise(PROMISE, f"{part} is within an event")
        if part.segment in contents and part.offset > len(contents[part.segment]):
            raise BrokenPromise(
                PROMISE,
                f"{part} is beyond the {len(contents[part.segment])} bytes that were written",
            )


def _waited_for(
    ticker: Ticker, spell: Spell, marks: Sequence[Watermark], contents: Mapping[int, bytes]
) -> None:
    """Compare *marks*, which came during *spell*, with what *ticker* noted and wrote."""
    for mark in marks:
        if mark.low > spell.asked:
            raise BrokenPromise(
                PROMISE,
                f"{ticker.name} has come to {spell.asked}, and {mark} says that all are further",
            )
        for event in ticker.events:
            if event.time < mark.low and _behind(event, mark, contents):
                raise BrokenPromise(PROMISE, f"{event} is older than {mark}, and behind its place")


def _behind(event: Event, mark: Watermark, contents: Mapping[int, bytes]) -> bool:
    """Return whether *event* is behind the place of *mark*.

    If its segment is not known, all segments of the place are searched.
    """
    if event.segment is not None:
        return not _reached(event.segment.id, event.segment, event.length, mark)
    return any(
        event.record in contents.get(part.segment, b"")[part.offset :] for part in mark.place
    )


def _reached(segment: int, keys: Part | StreamSegment, offset: int, mark: Watermark) -> bool:
    """Return whether *offset* in *segment*, which has *keys*, is before the place of *mark*.

    It must be in every part of the place that shares keys with the segment.
    """
    parts = [part for part in mark.place if part.low < keys.high and keys.low < part.high]
    return all(
        part.offset >= offset if part.segment == segment else part.epoch > keys.epoch
        for part in parts
    )
