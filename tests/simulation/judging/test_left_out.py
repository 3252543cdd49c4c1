"""The judge takes for left out only what an agent may leave out: the rest of long events, and
events that it excludes.
"""

import pytest

from tests.simulation.drawing.history import draw
from tests.simulation.judging.left_out import may_be_left_out, may_be_there
from tests.simulation.plan import AgentPlan

LONG = b"line 4 " + b"word " * 20
DATA = b"line 1 a\nline 3 b\nline 17 c\n" + LONG + b"\nline 33 d\n"
_THIRD = DATA.index(b"line 3 ")
_FOURTH = DATA.index(LONG)
_FIFTH = DATA.index(b"line 33")


def _plan(**values: object) -> AgentPlan:
    agent = draw(0).agents[0]
    return AgentPlan(agent.name, agent.output, 300.0, "beginning", **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("start", "end", "may"),
    [
        (_THIRD, _FOURTH, True),
        (_THIRD, len(DATA), False),
        (0, _THIRD, False),
        (_FIFTH, len(DATA), True),
        (_FIFTH, len(DATA) + 1, False),
    ],
)
def test_lines_that_match_may_be_left_out_and_no_others(start: int, end: int, may: bool) -> None:
    assert may_be_left_out(DATA, start, end, _plan(processors=("exclude",))) is may
    assert not may_be_left_out(DATA, start, end, _plan())


def test_the_rest_of_a_long_event_may_be_left_out_and_no_more() -> None:
    long = _plan(longest=60)
    rest = _FOURTH + len(LONG) + 1
    assert may_be_left_out(DATA, _FOURTH + 60, rest, long)
    assert may_be_left_out(DATA, _FOURTH + 58, rest, long)
    assert not may_be_left_out(DATA, _FOURTH + 57, rest, long)
    assert not may_be_left_out(DATA, _FOURTH, rest, long)
    assert not may_be_left_out(DATA, _FOURTH + 60, len(DATA), long)
    both = _plan(longest=60, processors=("exclude",))
    assert may_be_left_out(DATA, _FOURTH + 60, len(DATA), both)


def test_an_event_that_matches_once_it_is_cut_may_be_left_out() -> None:
    data = b"line 1 " + b"word " * 9 + b"line 138 user\n"
    assert data[:59].endswith(b"line 13")
    both = _plan(longest=59, processors=("exclude",))
    assert may_be_left_out(data, 0, len(data), both)
    assert not may_be_left_out(data, 0, len(data), _plan(processors=("exclude",)))


def test_what_is_excluded_may_not_be_there() -> None:
    assert may_be_there(b"line 1 a\nline 34 b\n", _plan(processors=("exclude",)))
    assert not may_be_there(b"line 1 a\nline 37 b\n", _plan(processors=("exclude",)))
    assert may_be_there(b"line 37 b\n", _plan())
