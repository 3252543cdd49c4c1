"""Selects the sources that an operator asks for: the first of those that match, in some order.

Each source is looked at once, a slice of them at a time, so that the agent goes on meanwhile; only
those that are shown are described.
"""

import asyncio
import heapq
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from agent.control.messages import StatusRequest, UnreadableFile
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.paths.globs import PathPattern
from agent.lag import LagMeter
from agent.sources.paths import printable_path
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from agent.status import ABSENT, ENDED, SourceReporter, SourceStatus, describe_entry, state_of

_SLICE: Final = 1000
"""Sources that are looked at before other tasks run: about a millisecond."""


async def select_sources(
    request: StatusRequest,
    registry: SourceRegistry,
    reporter: SourceReporter,
    lag: LagMeter,
    now: float,
) -> tuple[int, list[SourceStatus]]:
    """Return how many sources match *request*, and the first of them.

    *now* is in monotonic seconds.
    """
    rank = _ranking(request, registry, lag, now)
    matches = _filter(request, registry, reporter)
    best: list[tuple[float | str, int, Source]] = []
    matching = looked_at = 0
    sources = iter(list(registry.sources))
    choose = heapq.nsmallest if request.sort == "path" else heapq.nlargest

    while piece := list(islice(sources, _SLICE)):
        found = [source for source in piece if source in registry.sources and matches(source)]
        # the number decides among equal ranks, as sources have no order
        ranked = [
            (rank(source), -number, source) for number, source in enumerate(found, matching + 1)
        ]
        best = choose(request.limit, best + ranked)
        matching += len(found)
        looked_at += len(piece)
        await asyncio.sleep(0)

    shown = [reporter.describe(source) for _, _, source in best if source in registry.sources]
    if request.gone or request.problems or request.state in (ENDED, ABSENT):
        gone = _gone(request, registry)
        matching += len(gone)
        shown += gone[: request.limit - len(shown)]
    return matching, shown


def select_unreadable(
    request: StatusRequest, files: Iterable[FollowedFile]
) -> list[UnreadableFile]:
    """Return the files that can't be read, and have no source that says so, for *request*.

    They have problems, and none of the states of sources.
    """
    if not request.problems or request.behind or request.state is not None:
        return []
    pattern = PathPattern(request.path) if request.path is not None else None
    unreadable = [
        UnreadableFile(path=printable_path(file.generation.place.name), problem=file.trouble)
        for file in files
        if file.trouble and file.source is None
    ]
    return sorted(
        (file for file in unreadable if pattern is None or pattern.matches_path(file.path)),
        key=lambda file: file.path,
    )


def _ranking(
    request: StatusRequest, registry: SourceRegistry, lag: LagMeter, now: float
) -> Callable[[Source], float | str]:
    """Return what sources are sorted by."""
    rankings: dict[str, Callable[[Source], float | str]] = {
        "lag": lambda source: source.unacknowledged_bytes,
        "age": lambda source: lag.seconds_of(source, now),
        "rate": lag.rate_of,
        "size": lambda source: source.generation.seen if source.generation is not None else 0,
        "path": registry.path_of,
    }
    return rankings[request.sort]


def _filter(
    request: StatusRequest, registry: SourceRegistry, reporter: SourceReporter
) -> Callable[[Source], bool]:
    """Return whether a living source is asked for."""
    tests: list[Callable[[Source], bool]] = []
    if request.behind:
        tests.append(lambda source: source.is_behind)
    if request.problems:
        tests.append(lambda source: bool(reporter.problem_of(source)))
    if request.state is not None:
        state = request.state
        tests.append(lambda source: state_of(source) == state)
    if request.path is not None:
        pattern = PathPattern(request.path)
        tests.append(lambda source: pattern.matches_path(printable_path(registry.path_of(source))))
    return lambda source: all(test(source) for test in tests)


def _gone(request: StatusRequest, registry: SourceRegistry) -> Sequence[SourceStatus]:
    """Return the entries that are no sources now and that *request* asks for."""
    if request.behind:
        return []
    ended = [] if request.problems else registry.ended.values()
    entries = [describe_entry(entry) for entry in (*registry.absent.values(), *ended)]
    pattern = PathPattern(request.path) if request.path is not None else None
    return [
        entry
        for entry in entries
        if entry.state in (ABSENT, ENDED)
        and request.state in (None, entry.state)
        and (pattern is None or pattern.matches_path(entry.path))
    ]
