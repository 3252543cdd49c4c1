"""The search for a source's count among generations that look alike (G3)."""

from uuid import UUID

from agent.sources.incarnation_search import MOST_COUNTS, IncarnationSearch, StoredNumber
from logdrive.model.numbers import ABSENT, CLOSED, number_of

STORE = UUID(int=7)


def test_a_search_takes_the_highest_open_count_that_fits__G3() -> None:
    search = IncarnationSearch(0, many=True)
    numbers = {
        0: CLOSED + 5,
        1: number_of(10, b"x"),
        2: number_of(20, b"x"),
        3: number_of(30, b"misfit"),
        4: ABSENT,
    }
    for count in search.next_counts():
        assert search.decide_count(lambda number: True) is None
        search.add_answer(StoredNumber(count, numbers.get(count, ABSENT), STORE))
    decided = search.decide_count(lambda number: number in (numbers[1], numbers[2]))
    assert decided is not None
    assert decided.count == 2
    never = search.decide_count(lambda number: False)
    assert never is not None
    assert never.count == 4


def test_a_search_asks_for_more_until_one_was_never_seen__G3() -> None:
    search = IncarnationSearch(0, many=True)
    asked: list[int] = []
    while True:
        counts = search.next_counts()
        asked += counts
        for count in counts:
            search.add_answer(StoredNumber(count, CLOSED if count < 70 else ABSENT, STORE))
        decided = search.decide_count(lambda number: False)
        if decided is not None:
            break
    assert asked == list(range(8 + 56 + 56))
    assert decided.count == 70


def test_a_search_ends_even_where_everything_was_seen__G3() -> None:
    search = IncarnationSearch(0, many=True)
    while (decided := search.decide_count(lambda number: False)) is None:
        for count in search.next_counts():
            search.add_answer(StoredNumber(count, CLOSED, STORE))
    assert decided.count < MOST_COUNTS + 56


def test_counts_of_other_living_sources_are_never_asked_for__G3_G5() -> None:
    search = IncarnationSearch(0, many=True)
    assert search.next_counts([0, 3]) == [1, 2, 4, 5, 6, 7]
    everything = IncarnationSearch(0, many=True)
    assert everything.next_counts(range(8))[0] == 8, "some are asked for, or no answer would come"
