"""Deleted files are held open within limits: their space on the disk is not seen otherwise."""

from hypothesis import given
from hypothesis import strategies as st

from agent.inputs.files.deleted_files import DeletedFiles

_DAY = 86_400.0
_FILES = st.integers(0, 4).map(lambda number: (1, number))
_STEPS = st.lists(
    st.tuples(_FILES, st.integers(0, 60), st.floats(0, _DAY / 2), st.booleans()), max_size=40
)


@given(steps=_STEPS)
def test_over_the_limit_of_bytes_the_oldest_file_is_closed_and_over_that_of_age_any_file(
    steps: list[tuple[tuple[int, int], int, float, bool]],
) -> None:
    held, waiting, now = DeletedFiles(2.0, 100), dict[tuple[int, int], tuple[float, int]](), 0.0
    for key, unread, later, forgotten in steps:
        now += later
        if forgotten:
            held.untrack(key)
            waiting.pop(key, None)
            continue
        reason = held.track_unread(key, unread, now)
        if not unread:
            waiting.pop(key, None)
            assert reason == ""
            continue
        waiting[key] = waiting.get(key, (now, 0))[0], unread
        old = now - waiting[key][0] > 2 * _DAY
        much = sum(size for _, size in waiting.values()) > 100 and next(iter(waiting)) == key
        assert bool(reason) == (old or much)


def test_a_deleted_file_that_is_read_now_and_then_stays_open_while_it_is_written() -> None:
    held = DeletedFiles(1.0, 1000)
    for day in range(30):
        assert held.track_unread((1, 1), 500, day * _DAY * 0.9) == ""
        assert held.track_unread((1, 1), 0, day * _DAY * 0.9 + 60) == ""
