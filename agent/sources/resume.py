"""What a P means for a source: where to go on, what to send again, what to write down as gone
(rules D3, D4, D5, P4).

Pure: the number and store told, and what the agent knows, go in; what to do comes out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from agent.records.batch import ELSEWHERE, Mark, Run, gap_run
from agent.records.trim import rebased_all
from logdrive.model.numbers import ABSENT, LOST, NOT_KEPT, is_closed, position_of
from logdrive.model.records import END


@dataclass(frozen=True, slots=True)
class KnownPosition:
    """What the agent knows of a source.

    *kept* are its unacknowledged runs; they begin at *number*, the one acknowledged last.

    *readable* tells whether its bytes can be read anew, *ended* what a gap says where they can't.
    """

    number: int
    store: UUID | None
    kept: list[Run]
    readable: bool
    ended: Mark | None
    fits: Callable[[int], bool]
    complete_at: Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Resumed:
    """Go on from *number* with the *kept* runs, then with what is read from there.

    *stepped_back*: the store lost what it had.
    """

    number: int
    kept: list[Run] = field(default_factory=list)
    stepped_back: bool = False


@dataclass(frozen=True, slots=True)
class Misfit:
    """The number can't be this life's: a second writer, or a rewound file.

    The next count is to be taken (rule D4).
    """

    reason: str


@dataclass(frozen=True, slots=True)
class Closed:
    """The store has all of this life, its end record included."""


def resume(
    standing: KnownPosition, number: int, store: UUID, now_ms: int
) -> Resumed | Misfit | Closed:
    """Return what the P (*number*, *store*) asks for."""
    if number == NOT_KEPT:
        return Resumed(standing.number, standing.kept)
    if is_closed(number):
        return _closed(standing, number)
    told = 0 if number in (ABSENT, LOST) else number
    if told and not _known(standing, told) and not standing.fits(told):
        return Misfit(
            f"the store has position {position_of(told)}, which this file contradicts: a "
            "second writer, or a rewound file"
        )
    own, elsewhere = position_of(standing.number), number == LOST or standing.store != store
    if position_of(told) >= own:
        return Resumed(told, _from(standing, told))
    if elsewhere:
        gap = gap_run(told, standing.number, Mark(ELSEWHERE, store=standing.store), now_ms)
        return Resumed(told, [gap, *standing.kept])
    if standing.readable:
        return Resumed(told, stepped_back=True)
    gap = gap_run(
        told, standing.number, Mark(standing.ended.reason if standing.ended else "removed"), now_ms
    )
    return Resumed(told, [gap, *standing.kept], stepped_back=True)


def _closed(standing: KnownPosition, number: int) -> Misfit | Closed:
    ends_so = (
        bool(standing.kept) and standing.kept[-1].kind == END and standing.kept[-1].number == number
    )
    if not standing.readable or ends_so or standing.complete_at(number):
        return Closed()
    return Misfit(
        "the store has this life as ended, but it goes on: a second writer, or a rewound file"
    )


def _known(standing: KnownPosition, number: int) -> bool:
    return number == standing.number or any(run.number == number for run in standing.kept)


def _from(standing: KnownPosition, number: int) -> list[Run]:
    """Return the kept runs after *number*; none where it lies inside of one and the bytes can be
    read anew.
    """
    boundaries = (standing.number, *(run.number for run in standing.kept))
    if standing.readable and position_of(number) not in map(position_of, boundaries):
        return []
    return rebased_all(standing.kept, number)
