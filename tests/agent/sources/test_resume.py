"""What a P frame means for a source, case by case (D3, D4, D5, S3, P4)."""

from collections.abc import Sequence
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.sources.resume import Closed, KnownPosition, Misfit, Resumed, resume
from agent.sources.unacknowledged import elsewhere_gaps
from logdrive.model.numbers import ABSENT, CLOSED, LOST, NOT_KEPT, number_of, position_of
from logdrive.model.records import DATA, END, GAP, block_record, mark_in_record
from logdrive.records.runs import (
    ELSEWHERE,
    REMOVED,
    TRUNCATED,
    GapOrEndMark,
    Run,
    make_end_run,
    make_gap_run,
)

A, B, C = UUID(int=1), UUID(int=2), UUID(int=3)


def at(position: int) -> int:
    """Return the number of a position in the one file of these tests."""
    return number_of(position, b"tail of %d" % position)


def data(previous: int, position: int) -> Run:
    start = position_of(previous)
    return Run(
        DATA,
        previous,
        at(position),
        [block_record(start, position, 1, "x" * (position - start - 1) + "\n")],
        1,
        10,
        0,
    )


def standing(
    number: int = 0,
    store: UUID | None = None,
    kept: list[Run] | None = None,
    *,
    size: int = 1000,
    ended: GapOrEndMark | None = None,
) -> KnownPosition:
    def fits(answer: int) -> bool:
        return ended is not None or (
            position_of(answer) <= size
            and answer in (at(position_of(answer)), number_of(position_of(answer), None))
        )

    return KnownPosition(
        number, store, kept or [], ended is None, ended, fits, lambda answer: False
    )


def positions(runs: Sequence[Run]) -> list[tuple[int, int, int]]:
    return [(run.kind, position_of(run.previous), run.position) for run in runs]


@pytest.mark.parametrize("answer", [ABSENT, LOST, NOT_KEPT])
def test_a_source_never_seen_starts_at_0__P2(answer: int) -> None:
    assert resume(standing(), answer, A, 0) == Resumed(0)


def test_a_source_goes_on_from_a_position_that_its_file_has__D4() -> None:
    assert resume(standing(), at(500), A, 0) == Resumed(at(500))
    assert resume(standing(at(300), A), at(500), A, 0) == Resumed(at(500))


@pytest.mark.parametrize("answer", [number_of(500, b"another"), at(1001), at(500) + CLOSED])
def test_a_position_that_the_file_contradicts_is_a_misfit__D4(answer: int) -> None:
    assert isinstance(resume(standing(), answer, A, 0), Misfit)
    assert isinstance(resume(standing(at(300), A), answer, A, 0), Misfit)


def test_stored_runs_count_as_acknowledged_and_the_others_are_sent_again__D3() -> None:
    kept = [data(at(100), 200), data(at(200), 300), data(at(300), 400)]
    resumed = resume(standing(at(100), A, kept), at(200), A, 0)
    assert isinstance(resumed, Resumed)
    assert resumed.runs == kept[1:]
    assert resumed.runs[0] is kept[1], "kept as it is"


def test_a_position_inside_a_run_drops_the_runs_that_can_be_read_again__D3() -> None:
    kept = [data(at(100), 200), data(at(200), 300)]
    assert resume(standing(at(100), A, kept), at(250), A, 0) == Resumed(at(250))


def test_a_position_inside_a_run_whose_bytes_are_gone_keeps_the_bytes_after_it__P4() -> None:
    mark = GapOrEndMark(TRUNCATED, exact=False)
    kept = [data(at(100), 200), make_end_run(at(200), mark, 0)]
    resumed = resume(standing(at(100), A, kept, ended=mark), at(150), A, 0)
    assert isinstance(resumed, Resumed)
    assert positions(resumed.runs) == [(DATA, 150, 200), (END, 200, 200)]
    assert resumed.runs[0].records == [block_record(150, 200, 1, "x" * 49 + "\n")]


def test_the_same_store_with_a_lower_position_has_stepped_back__D5() -> None:
    assert resume(standing(at(300), A, [data(at(300), 400)]), at(100), A, 0) == Resumed(
        at(100), stepped_back=True
    )
    assert resume(standing(at(300), A), ABSENT, A, 0) == Resumed(0, stepped_back=True)


def test_bytes_that_the_store_lost_become_a_gap_if_the_file_is_gone__D5_P4() -> None:
    mark = GapOrEndMark(REMOVED)
    resumed = resume(
        standing(at(300), A, [make_end_run(at(300), mark, 0)], ended=mark), at(100), A, 0
    )
    assert isinstance(resumed, Resumed)
    assert resumed.stepped_back
    assert positions(resumed.runs) == [(GAP, 100, 300), (END, 300, 300)]
    assert resumed.runs[0].number == at(300)
    assert b'"reason":"removed","end_exact":true' in mark_in_record(resumed.runs[0].records[0])


@pytest.mark.parametrize("answer", [ABSENT, at(100)])
def test_another_store_gets_a_gap_that_names_the_store_before__D5(answer: int) -> None:
    kept = [data(at(300), 400)]
    resumed = resume(standing(at(300), B, kept), answer, A, 0)
    assert isinstance(resumed, Resumed)
    first = position_of(answer) if answer > 0 else 0
    assert positions(resumed.runs) == [(GAP, first, 300), (DATA, 300, 400)]
    assert resumed.runs[0].mark == GapOrEndMark(ELSEWHERE, store=B)
    assert str(B).encode() in resumed.runs[0].records[0]
    assert not resumed.stepped_back


def test_a_source_goes_on_from_the_higher_position_of_another_store__D5() -> None:
    assert resume(standing(at(300), B), at(500), A, 0) == Resumed(at(500))


def test_a_store_that_has_a_part_of_a_gap_elsewhere_gets_its_rest__D5() -> None:
    # C had 300 when it was left for A, which refused the gap; B has 100 from earlier
    gap = make_gap_run(0, at(300), GapOrEndMark(ELSEWHERE, store=C), 0)
    resumed = resume(standing(0, A, [gap, data(at(300), 400)]), at(100), B, 0)
    assert isinstance(resumed, Resumed)
    assert positions(resumed.runs) == [(GAP, 100, 300)]
    assert resumed.runs[0].mark == GapOrEndMark(ELSEWHERE, store=C)


def test_a_source_whose_number_was_lost_goes_on_as_with_another_store__S3_D5() -> None:
    resumed = resume(standing(at(300), A), LOST, A, 0)
    assert isinstance(resumed, Resumed)
    assert positions(resumed.runs) == [(GAP, 0, 300)]


def test_a_source_goes_on_from_the_checkpoint_where_no_numbers_are_kept__S5() -> None:
    kept = [data(at(300), 400)]
    assert resume(standing(at(300), A, kept), NOT_KEPT, A, 0) == Resumed(at(300), kept)


def test_a_closed_number_completes_a_generation_that_has_ended__G3_D4() -> None:
    mark = GapOrEndMark(TRUNCATED, exact=False)
    kept = [make_end_run(at(300), mark, 0)]
    assert resume(standing(at(300), A, kept, ended=mark), kept[0].number, A, 0) == Closed()
    assert resume(standing(at(300), A, kept, ended=mark), at(500) + CLOSED, A, 0) == Closed()


def test_gaps_and_ends_are_made_again_from_the_position_of_the_store__P4_G3() -> None:
    mark = GapOrEndMark(REMOVED, exact=False)
    gap = make_gap_run(at(100), number_of(300, None), mark, 0)
    kept = [gap, make_end_run(gap.number, mark, 0)]
    resumed = resume(standing(at(100), A, kept, ended=mark), at(200), A, 0)
    assert isinstance(resumed, Resumed)
    assert positions(resumed.runs) == [(GAP, 200, 300), (END, 300, 300)]
    assert b'"start":200' in resumed.runs[0].records[0]
    beyond = resume(standing(at(100), A, kept, ended=mark), at(400), A, 0)
    assert isinstance(beyond, Resumed)
    assert positions(beyond.runs) == [(END, 400, 400)]
    assert beyond.runs[0].number == at(400) + CLOSED


@given(
    own=st.integers(0, 500),
    cuts=st.lists(st.integers(1, 100), max_size=4),
    answer=st.one_of(st.integers(1, 1000).map(at), st.sampled_from([ABSENT, LOST, NOT_KEPT])),
    store=st.sampled_from([None, A, B]),
    gone=st.booleans(),
)
def test_the_runs_after_an_answer_always_follow_its_number__D1_D3(
    own: int, cuts: list[int], answer: int, store: UUID | None, gone: bool
) -> None:
    number, kept = at(own) if own else 0, list[Run]()
    for size in cuts:
        kept.append(
            data(kept[-1].number if kept else number, (kept[-1].position if kept else own) + size)
        )
    mark = GapOrEndMark(TRUNCATED, exact=False) if gone else None
    if mark is not None:
        kept.append(make_end_run(kept[-1].number if kept else number, mark, 0))
    resumed = resume(standing(number, store if own else None, kept, ended=mark), answer, A, 0)
    assert isinstance(resumed, Resumed)
    if answer >= 0:
        assert resumed.number == answer
    previous = resumed.number
    for run in resumed.runs:
        assert run.previous == previous < run.number
        previous = run.number
    if gone:
        assert resumed.runs[-1].kind == END
        reached = max(own + sum(cuts), position_of(resumed.number))
        assert position_of(resumed.runs[-1].number) == reached, "nothing known is left out"


@given(
    visits=st.lists(
        st.tuples(st.integers(1, 4), st.lists(st.integers(1, 50), max_size=3), st.integers(0, 3)),
        max_size=30,
    )
)
def test_a_source_that_wanders_between_stores_has_each_byte_in_one_of_them__D5(
    visits: list[tuple[int, list[int], int]],
) -> None:
    """Each visit is a store, the bytes of the runs read there, and how many runs it takes."""
    stored, bytes_in = dict[UUID, int](), dict[UUID, list[int]]()
    number, before, kept = 0, None, list[Run]()
    for name, sizes, taken in visits:
        store = UUID(int=name)
        resumed = resume(
            standing(number, before, kept, size=10_000), stored.get(store, ABSENT), store, 0
        )
        assert isinstance(resumed, Resumed)
        assert not resumed.stepped_back
        number, before, kept = resumed.number, store, list(resumed.runs)
        for size in sizes:
            previous = kept[-1].number if kept else number
            kept.append(data(previous, position_of(previous) + size))
        for run in kept[:taken]:
            assert run.previous == (stored.get(store, 0) or number)
            if run.kind == DATA:
                interval = range(position_of(run.previous), run.position)
                bytes_in.setdefault(store, []).extend(interval)
            stored[store] = number = run.number
        # what is not taken, and can be read again, is dropped by a refusal
        kept = list(elsewhere_gaps(kept[taken:]))

    everything = sorted(at for each in bytes_in.values() for at in each)
    assert everything == list(range(len(everything)))
