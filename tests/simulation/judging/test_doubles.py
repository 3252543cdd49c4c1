"""Copies that may arrive as sources of their own, and those that an agent could have known (G5)."""

from dataclasses import replace

import pytest

from tests.simulation.hosts.applications import Life
from tests.simulation.judging.arrivals import Arrived
from tests.simulation.judging.doubles import (
    is_elsewhere,
    is_first_line_only,
    is_first_line_seen,
    is_unknown,
)
from tests.simulation.judging.witnesses import Start, Starts

_COPY = "/logs/a.log.1.copy"
_FILE, _COPIED = (7, 1), (8, 2)
_START = Start(
    frozenset(), frozenset(), lost=False, durable=True, files={_COPY: _COPIED}, known=frozenset()
)


def _life() -> Life:
    life = Life("host", "a.log", 1, None, bytearray(b"one\ntwo\n"), copy=_COPY)
    life.stood_at, life.file = "/logs/a.log", _FILE
    return life


def _source(data: bytes, *, open_gap: bool = True, ended: str | None = "truncated") -> Arrived:
    return Arrived("s", "o", "host", [(0, data)], open_gap=open_gap, ended=ended)


def test_only_a_first_line_whose_end_is_told_may_be_there_twice() -> None:
    assert is_first_line_only(_life(), _source(b"one\n"))
    assert is_first_line_only(_life(), _source(b"one\n", open_gap=False, ended=None))
    assert not is_first_line_only(_life(), _source(b"one\n", open_gap=False))
    assert is_first_line_only(_life(), _source(b"on")), "written in two pieces"
    assert not is_first_line_only(_life(), _source(b"one\ntwo\n"))


def test_of_a_compressed_life_only_the_first_line_may_have_been_seen() -> None:
    life = _life()
    source = Arrived("s", "o", "host", last=4, open_gap=True, ended="removed")
    assert not is_first_line_seen(life, source)
    life.copy = "/logs/a.log.1.gz"
    assert is_first_line_seen(life, source)
    source.last = 5
    assert not is_first_line_seen(life, source)


@pytest.mark.parametrize(
    ("start", "unknown"),
    [
        (_START, True),
        (replace(_START, settled=frozenset("o")), False),
        (replace(_START, known=frozenset([_FILE])), False),
        (replace(_START, files={_COPY: _COPIED, "/logs/a.log": _FILE}), False),
        (replace(_START, files={_COPY: _COPIED, "/logs/a.log": (9, 3)}), True),
        (replace(_START, files={_COPY: _COPIED, "/logs/a.log": (7, 3)}), True),
        (replace(_START, files={}), False),
    ],
    ids=[
        "gone",
        "in the checkpoint",
        "its file is",
        "beside it",
        "another beside it",
        "another with its inode",
        "no copy",
    ],
)
def test_a_life_is_unknown_once_neither_checkpoint_nor_its_file_tell(
    start: Start, unknown: bool
) -> None:
    source = _source(b"one\ntwo\n")
    assert is_unknown(_life(), (source, source), Starts({2: start})) is unknown


def test_a_life_is_unknown_to_the_start_in_which_its_file_was_moved() -> None:
    source, life = _source(b"one\ntwo\n"), _life()
    starts = Starts({2: replace(_START, files={_COPY: _COPIED, "/logs/a.log": _FILE})})
    life.moved_in = 2
    assert is_unknown(life, (source, source), starts)
    life.moved_in = 1
    assert not is_unknown(life, (source, source), starts)


def test_an_agent_whose_checkpoint_lacks_a_life_may_ask_another_store_where_there_are_several() -> (
    None
):
    source = _source(b"one\ntwo\n")

    def elsewhere(start: Start, stores: int = 2) -> bool:
        return is_elsewhere(_life(), (source, source), Starts({2: start}), stores)

    assert elsewhere(replace(_START, lost=True))
    assert not elsewhere(replace(_START, lost=True), stores=1)
    assert elsewhere(_START)
    assert not elsewhere(replace(_START, origins=frozenset("o")))
    assert not elsewhere(replace(_START, files={}))


def test_a_life_is_unknown_to_a_start_without_checkpoint_in_which_it_was_truncated() -> None:
    source, life = _source(b"one\ntwo\n"), _life()
    lost = replace(_START, lost=True, files={"/logs/a.log": _FILE})
    life.gone_in = 2
    assert is_unknown(life, (source, source), Starts({2: lost}))
    assert not is_unknown(life, (source, source), Starts({2: replace(lost, lost=False)}))
    assert not is_unknown(life, (source, source), Starts({1: lost}))
    assert not is_unknown(life, (source, source), Starts({2: replace(lost, files={})}))
