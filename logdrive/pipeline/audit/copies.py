"""Finds lines of one file that are in the tables under two sources (rules A4, D6, ADR 16).

Clones, restored hosts and renamed certificates cause this. A source is one generation of a file as
sent by one client, so each of the two may be complete by itself, and only a comparison of their
rows shows that lines are doubled. Two kinds of pairs are compared:

- sources of one origin, which two client identities sent;
- a source whose agent said that it may send lines again (`resend`), and the others of its path.

Rows are counted as doubled up to the first one in which the two differ. They are read only if there
are such pairs.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from logdrive.pipeline.audit.engines.engine import AuditEngine
from logdrive.pipeline.audit.sources import RESENT, AuditedSource

TWO_CLIENTS: Final = "two_clients"
SENT_AGAIN: Final = "sent_again"
_FEWEST_AGAIN: Final = 2
"""Equal lines that make a copy: generations that look alike share their first line anyway."""


@dataclass(frozen=True, slots=True)
class CopiedSource:
    """A source whose first lines are also those of another source.

    *lines* and *bytes* count these lines; *why* says why the two were compared.
    """

    source: str  # the one that came later
    other: str
    path: str | None
    lines: int
    bytes: int
    why: str  # `TWO_CLIENTS` or `SENT_AGAIN`


SourcePair = tuple[AuditedSource, AuditedSource, str]
"""The source that came later, the other one, and why the two are compared."""


def find_pairs(sources: Iterable[AuditedSource]) -> list[SourcePair]:
    """Return the pairs of sources to compare."""
    by_origin: dict[str, list[AuditedSource]] = {}
    by_path: dict[str, list[AuditedSource]] = {}
    for source in sources:
        if source.origin is not None and source.path is not None and not source.foreign:
            by_origin.setdefault(source.origin, []).append(source)
            by_path.setdefault(source.path, []).append(source)

    pairs: list[SourcePair] = []
    for alike in by_origin.values():
        first, *later = sorted(alike, key=lambda source: (source.first_heard, source.source))
        pairs += [(source, first, TWO_CLIENTS) for source in later]
    for alike in by_path.values():
        pairs += [
            (again, other, SENT_AGAIN)
            for again in alike
            if again.resend
            for other in _others(again, alike)
        ]
    return pairs


def _others(again: AuditedSource, alike: Sequence[AuditedSource]) -> list[AuditedSource]:
    """Return the sources of which *again* may be a copy.

    These are the earlier ones of its host; of any host if there are none, since a clone may have a
    new host name.
    """
    others = [
        source
        for source in alike
        if source is not again and source.first_heard <= again.first_heard
    ]
    near = [source for source in others if source.host == again.host] or others
    # an operator who had a file sent again knows that its lines are there twice
    return [source for source in near if source.ended != RESENT]


def find_copies(engine: AuditEngine, pairs: Sequence[SourcePair]) -> list[CopiedSource]:
    """Return the sources of *pairs* that begin as copies of the other one."""
    if not pairs:
        return []
    sizes = engine.size_copies([(source.source, other.source) for source, other, _ in pairs])
    return _longest_per_source(
        [(pair, sizes.get((pair[0].source, pair[1].source), (0, 0))) for pair in pairs]
    )


def _longest_per_source(sized: Iterable[tuple[SourcePair, tuple[int, int]]]) -> list[CopiedSource]:
    """Return the longest copy of each source, so that no line is counted twice."""
    best: dict[str, CopiedSource] = {}
    for (source, other, why), (lines, size) in sized:
        if lines < (_FEWEST_AGAIN if why == SENT_AGAIN else 1):
            continue
        known = best.get(source.source)
        if known is None or lines > known.lines:
            best[source.source] = CopiedSource(
                source.source, other.source, source.path, lines, size, why
            )
    return sorted(best.values(), key=lambda copy: (copy.path or "", copy.source))
