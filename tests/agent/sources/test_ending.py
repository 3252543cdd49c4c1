"""The last runs of a generation cover all of its bytes; the end record closes it (P2, P4, G3)."""

from hypothesis import given
from hypothesis import strategies as st

from agent.sources.ending import make_last_runs
from logdrive.model.numbers import CLOSED, number_of, position_of
from logdrive.model.records import END, GAP
from logdrive.records.runs import NOT_WANTED, TRUNCATED, GapOrEndMark

positions = st.integers(0, 200)
MARK = GapOrEndMark(TRUNCATED, exact=False)


@given(cursor=positions, start=positions, seen=positions)
def test_the_last_runs_follow_one_another_up_to_the_bytes_seen_and_end__P4(
    cursor: int, start: int, seen: int
) -> None:
    number = number_of(cursor, b"x")
    *gaps, end = make_last_runs(number, MARK, start=start, seen=seen, now_ms=5)
    for run in [*gaps, end]:
        assert run.previous == number
        number = run.number
    assert all(run.kind == GAP and run.position > position_of(run.previous) for run in gaps)
    assert (end.kind, end.position, end.mark) == (END, max(cursor, seen), MARK)
    assert end.number == end.previous + CLOSED


@given(cursor=positions, start=positions, seen=positions)
def test_only_bytes_before_the_start_of_an_unsent_generation_are_not_wanted__P2(
    cursor: int, start: int, seen: int
) -> None:
    *gaps, _ = make_last_runs(number_of(cursor, b"x"), MARK, start=start, seen=seen, now_ms=5)
    unwanted = [run for run in gaps if run.mark == GapOrEndMark(NOT_WANTED)]
    begun = min(start, seen) if cursor == 0 else 0
    assert [run.position for run in unwanted] == ([begun] if begun else [])
