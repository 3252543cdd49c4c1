"""The last runs of a generation: gaps for what was not read of it, then its end record (G3, P4)."""

from logdrive.model.numbers import position_of
from logdrive.records.runs import (
    NOT_WANTED,
    SKIPPED,
    GapOrEndMark,
    Run,
    make_end_run,
    make_gap_run,
    number_without_check,
)


def make_last_runs(
    cursor: int, mark: GapOrEndMark, *, start: int, skip_to: int = 0, seen: int, now_ms: int
) -> list[Run]:
    """Return the runs that follow the number *cursor* and end the generation as *mark* says.

    Its bytes were wanted from *start* on, an operator left out those before *skip_to*, and they are
    known to have reached *seen*: all positions.
    """
    runs: list[Run] = []
    # Only a generation of which nothing was sent yet still lacks the gap before its start (P2).
    unwanted = min(start, seen) if position_of(cursor) == 0 else 0
    skipped = (min(skip_to, seen), GapOrEndMark(SKIPPED))
    for end, reason in ((unwanted, GapOrEndMark(NOT_WANTED)), skipped, (seen, mark)):
        if end > position_of(cursor):
            runs.append(make_gap_run(cursor, number_without_check(end), reason, now_ms))
            cursor = runs[-1].number

    runs.append(make_end_run(cursor, mark, now_ms))
    return runs
