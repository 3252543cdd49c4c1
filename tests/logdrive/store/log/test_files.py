"""The log's files: which one holds a position, and how much of each belongs to a segment."""

import sys

import pytest

from logdrive.store.log.files import LogFiles, bases_in, file_name
from logdrive.store.log.format import ENTRY_HEAD


def three() -> LogFiles:
    """Return files that begin at 0, 1000 and 3000."""
    files = LogFiles("/store", [0])
    files.begin_file(1000)
    files.begin_file(3000)
    return files


@pytest.mark.parametrize(
    ("position", "base", "end"),
    [
        (0, 0, 1000),
        (999, 0, 1000),
        (1000, 1000, 3000),
        (2999, 1000, 3000),
        (3000, 3000, sys.maxsize),
    ],
)
def test_a_position_is_in_the_last_file_that_begins_at_or_before_it(
    position: int, base: int, end: int
) -> None:
    assert three().base_of(position) == base
    assert three().span_of(position) == (base, end)


def test_what_comes_and_goes_is_counted_at_its_own_file_alone() -> None:
    files = three()
    files.add_live(500, 100)
    files.add_live(1000, 200)
    files.add_live(2000, 300)
    files.on_searched()
    assert files.live == {0: ENTRY_HEAD + 100, 1000: 2 * ENTRY_HEAD + 500, 3000: 0}
    files.remove_live(2000, 500, 2)
    assert files.live == {0: ENTRY_HEAD + 100, 1000: 0, 3000: 0}
    assert files.changed


def test_a_freed_file_leaves_the_places_of_the_others_as_they_are() -> None:
    """Its own bytes can no longer be asked for; positions do not change."""
    files = three()
    files.remove_file(0)
    assert files.bases == [1000, 3000]
    assert files.ends == {1000: 3000}
    assert [files.base_of(position) for position in (1000, 2999, 3000, 9000)] == [
        1000,
        1000,
        3000,
        3000,
    ]
    files.remove_file(1000)
    assert (files.bases, files.ends, files.live) == ([3000], {}, {3000: 0})


def test_a_file_s_name_is_its_base() -> None:
    names = [file_name(base) for base in (3 << 32, 0, 4096)]
    assert bases_in([*names, "log-", "log-00", "index", "log-000000000000000g"]) == [
        0,
        4096,
        3 << 32,
    ]
