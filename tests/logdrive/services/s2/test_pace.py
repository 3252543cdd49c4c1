"""How much the sink has in flight beside other writers, and that it lets them append."""

from random import Random

from logdrive.services.s2.pace import FLIGHT_APPENDS, FLIGHT_BYTES, Pace


def test_alone_a_train_lasts_a_second_and_then_rests() -> None:
    pace = Pace(Random(1))
    pace.on_sent(10.0)
    assert not pace.train_ended(10.9)
    assert pace.train_ended(11.0)
    pace.on_acknowledged(0)
    assert not pace.train_ended(11.0), "it has ended by itself"
    assert 0 < pace.rest_seconds(11.0) < 0.1


def test_what_is_in_flight_is_bounded() -> None:
    pace = Pace(Random(1))
    assert pace.may_fly(FLIGHT_APPENDS - 1, 0)
    assert not pace.may_fly(FLIGHT_APPENDS, 0)
    assert not pace.may_fly(1, FLIGHT_BYTES)


def test_each_conflict_halves_what_may_fly_and_each_train_that_arrives_adds_one() -> None:
    pace = Pace(Random(1))
    for _ in range(10):
        pace.on_conflict(0.0)
    assert pace.may_fly(0, 0)
    assert not pace.may_fly(1, 0)
    pace.on_sent(1.0)
    assert pace.train_ended(1.0), "one append is a train now"
    pace.on_acknowledged(0)
    assert pace.may_fly(1, 0)
    assert not pace.may_fly(2, 0)


def test_conflicts_in_a_row_are_tried_at_once_first_and_then_after_a_wait() -> None:
    pace = Pace(Random(1))
    waits = [pace.on_conflict(0.0) for _ in range(40)]
    assert waits[0] == 0.0
    assert max(waits[20:]) > 0
    pace.on_acknowledged(0)
    assert pace.on_conflict(0.0) == 0.0
