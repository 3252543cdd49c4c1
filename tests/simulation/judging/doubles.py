"""Copies that arrive as sources of their own although nothing could tell them from other files
(rule G5). Their bytes are in the tables twice; each case says what was missing.
"""

from logdrive.model.limits import FIRST_LINE_BYTES
from tests.simulation.hosts.applications import Life
from tests.simulation.hosts.compressing import SUFFIXES
from tests.simulation.judging.arrivals import Arrived
from tests.simulation.judging.witnesses import Starts


def first_line_span(life: Life) -> int:
    """Return how many bytes the first line of *life* has, newline included (rule G2)."""
    return min(life.data.find(b"\n") + 1 or len(life.data), FIRST_LINE_BYTES)


def is_first_line_only(life: Life, source: Arrived) -> bool:
    """Return whether only the first line of *life*, which was copied, arrived as *source*.

    That line, which may have been without its newline then, may be that of many files, so it is no
    evidence: what else the life had was never read before the file was truncated. The source is
    open, or its end says so.
    """
    is_told = source.ended is None or source.open_gap
    return bool(life.copy) and is_told and source.reach <= first_line_span(life)


def is_first_line_seen(life: Life, source: Arrived) -> bool:
    """Return whether no more than the first line was seen of *life*, which is compressed now.

    Its *source* tells so. A plain copy would be sent as a file of its own.
    """
    return _is_packed(life) and source.last <= first_line_span(life)


def is_elsewhere(life: Life, sources: tuple[Arrived, Arrived], starts: Starts, stores: int) -> bool:
    """Return whether an agent whose checkpoint lacked *life* may have asked another store for it
    than the one that it had written to.

    There are *stores* of them: more than one if each receiver has its own.
    """
    origins = {source.origin for source in sources}
    lacked = any(
        life.copy in start.files and origins.isdisjoint(start.origins)
        for start in starts.found.values()
    )
    return stores > 1 and (starts.lost or lacked)


def is_unknown(life: Life, sources: tuple[Arrived, Arrived], starts: Starts) -> bool:
    """Return whether a start that found the copy of *life* could not know of the life itself.

    The checkpoint had neither of its two *sources*, but for the copy's that the agent before did
    not ask the store for. And the file that was truncated, whose inode is a part of its id in the
    store, was not in the checkpoint, and not beside the copy, or not for as long as it took to ask.

    For the life of a compressed copy no store is asked: there the checkpoint alone could tell.
    Neither can a start whose checkpoint was lost, if the file was truncated before it had asked, or
    compressed before it had read a line.
    """
    origins = {source.origin for source in sources}
    for number, start in starts.found.items():
        if not origins.isdisjoint(start.settled):
            continue
        here = life.gone_in == number
        if _is_packed(life) and (
            life.copy in start.files or (start.lost and here and not _is_read(life))
        ):
            return True
        if life.file in start.known:
            continue
        stood_there = start.files.get(life.stood_at) == life.file
        if life.copy in start.files and (not stood_there or life.moved_in == number):
            return True
        if start.lost and stood_there and here:
            return True
    return False


def _is_read(life: Life) -> bool:
    """Return whether the agent had a source of *life* when that went."""
    return life.witness is not None and bool(life.witness.origin)


def _is_packed(life: Life) -> bool:
    return any(life.copy.endswith(suffix) for suffix in SUFFIXES)
