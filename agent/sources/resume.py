"""What a P frame means for a source: where to go on, what to send again, and which gap to write
down (rules D3, D4, D5, P4).

Pure: `resume` takes the number and store of the P and what the agent knows, and returns what to do.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from agent.sources.unacknowledged import elsewhere_gaps
from logdrive.model.numbers import ABSENT, LOST, NOT_KEPT, is_closed, position_of
from logdrive.model.records import END
from logdrive.records.runs import ELSEWHERE, REMOVED, GapOrEndMark, Run, make_gap_run
from logdrive.records.trim import trim_runs


@dataclass(frozen=True, slots=True)
class KnownPosition:
    """What the agent knows of a source when a P comes."""

    number: int
    """The number acknowledged last, in *store*."""
    store: UUID | None
    """The store that has it; None before the first answer."""
    runs: Sequence[Run]
    """Its unacknowledged runs, which follow one another from *number*."""
    readable: bool
    """Whether its bytes can be read again."""
    ended: GapOrEndMark | None
    """The mark of its end record, if it has ended: gaps give the same reason."""
    fits: Callable[[int], bool]
    """Return whether a number can be this generation's, by its bytes (rule D4); raises as
    `Readable.matches_number` does.
    """
    complete_at: Callable[[int], bool]
    """Return whether a closed number is the end of these very bytes; raises like `fits`."""
    awaited: bool = False
    """Whether it ends with the copy that it is read from, or that is looked for (rule G5)."""


@dataclass(frozen=True, slots=True)
class Resumed:
    """Go on from *number* with *runs*, then with what is read after them."""

    number: int
    """The number that the store has, from now on the acknowledged one."""
    runs: Sequence[Run] = field(default_factory=list)
    """The unacknowledged runs from now on, which follow one another from *number*."""
    stepped_back: bool = False
    """The same store had acknowledged more: it has lost data."""


@dataclass(frozen=True, slots=True)
class Misfit:
    """The number can't be this generation's: take the next count (rule D4)."""

    reason: str
    """Why, for people."""


@dataclass(frozen=True, slots=True)
class Closed:
    """The store has all of this generation, its end record included."""


def resume(
    known: KnownPosition, number: int, store: UUID, now_ms: int
) -> Resumed | Misfit | Closed:
    """Return what the P (*number*, *store*) asks for; raises what `known.fits` does."""
    # a service without numbers: the agent's own are all there is
    if number == NOT_KEPT:
        return Resumed(known.number, known.runs)
    if is_closed(number):
        return _closed(known, number)

    # the ends of known runs fit by themselves; any other position is compared with the bytes
    stored = 0 if number in (ABSENT, LOST) else number
    if stored and not _is_boundary(known, stored) and not known.fits(stored):
        return Misfit(
            f"the store has position {position_of(stored)}, which this file contradicts: a "
            "second writer, or a rewound file"
        )

    # the store has as much as was acknowledged, or more: an acknowledgement was lost
    if position_of(stored) >= position_of(known.number):
        return Resumed(stored, _after(known, stored))
    # another store: what it lacks is in the one before, so a gap says where (rule D5)
    if number == LOST or known.store != store:
        gap = make_gap_run(stored, known.number, GapOrEndMark(ELSEWHERE, store=known.store), now_ms)
        return Resumed(stored, [gap, *known.runs])
    # the same store went back: send again what can be read again
    if known.readable or known.awaited:
        return Resumed(stored, stepped_back=True)
    # what can't be read again is gone
    reason = known.ended.reason if known.ended else REMOVED
    gap = make_gap_run(stored, known.number, GapOrEndMark(reason), now_ms)
    return Resumed(stored, [gap, *known.runs], stepped_back=True)


def _closed(known: KnownPosition, number: int) -> Misfit | Closed:
    """Return what a closed *number* means: the store has an end record under this origin id."""
    # closed by its own end record, or no bytes are left that could contradict it
    last = known.runs[-1] if known.runs else None
    is_own_end = last is not None and last.kind == END and last.number == number
    if not known.readable or known.awaited or is_own_end or known.complete_at(number):
        return Closed()
    return Misfit(
        "the store has this generation as ended, but it goes on: a second writer, or a rewound file"
    )


def _is_boundary(known: KnownPosition, number: int) -> bool:
    """Return whether a run begins or ends at *number*, so that it need not be compared."""
    return number == known.number or any(run.number == number for run in known.runs)


def _after(known: KnownPosition, number: int) -> list[Run]:
    """Return the runs after *number*; where the bytes can be read, none that would be cut."""
    runs = known.runs
    boundaries = (known.number, *(run.number for run in runs))
    if known.readable and position_of(number) not in map(position_of, boundaries):
        # what follows is read again from there, but for what a third store has (rule D5)
        runs = elsewhere_gaps(runs)
    return trim_runs(list(runs), number)
