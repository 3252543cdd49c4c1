"""Plays many histories, on all cores."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from tests.simulation.drawing.history import draw
from tests.simulation.history import play

_CHUNK = 5  # seeds that a process plays before it reports


def played(seeds: Sequence[int], jobs: int) -> Iterator[tuple[int, str, int]]:
    """Yield, in order, each seed, the promise that it broke ("" if none), and its event count."""
    if jobs == 1:
        yield from map(_judged, seeds)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            yield from pool.map(_judged, seeds, chunksize=_CHUNK)
        finally:
            pool.shutdown(cancel_futures=True)


def _judged(seed: int) -> tuple[int, str, int]:
    try:
        outcome = play(draw(seed))
    except Exception as error:  # of the simulator itself: others are still played
        return seed, f"the history could not be judged: {error!r}", 0
    return seed, str(outcome.broken) if outcome.broken is not None else "", outcome.events
