"""Runs of one pack: honest ones, and those whose inside is not what is said of it.

A *quiet* lie agrees with all that can be told without opening it, a *loud* one does not.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from logdrive.model.records import lean_record
from logdrive.model.units import KIB
from tests.support.packs import (
    CUT_TEXT,
    DEFLATE,
    RECORDS,
    STORED,
    TEXT,
    ZSTD,
    cut_text,
    framed,
    packed,
)

_BOMB: Final = bytes(512 * KIB)
_CUT: Final = 100  # bytes that some honest packs leave out
_LENGTH: Final = 4  # bytes of a length in a pack


@dataclass(frozen=True, slots=True)
class PackRun:
    """A run of one pack, as its B frame says it."""

    previous: int  # position before it
    position: int  # position after it
    events: int
    pack: bytes
    text: bytes  # the file from previous to position; what was left out is NULs
    skipped: int = 0
    lie: str = ""  # "" for an honest one
    opens: bool = False  # the pack can be opened: it is its records that lie


def honest(pick: Random, previous: int) -> PackRun:
    """Return a run whose pack holds what it says."""
    text = _lines(pick, previous)
    form = pick.choice((TEXT, TEXT, CUT_TEXT, RECORDS))
    if form == CUT_TEXT:
        return _cut(pick, previous, text)
    content = text if form == TEXT else _records(previous, text)
    pack = packed(form, content, pick.choice((STORED, DEFLATE, ZSTD)))
    return PackRun(previous, previous + len(text), text.count(b"\n"), pack, text)


def quiet_lie(pick: Random, previous: int, lie: str = "") -> PackRun:
    """Return a run with a lie that only shows once its pack is opened: *lie*, or any one."""
    text = _lines(pick, previous)
    run = PackRun(previous, previous + len(text), text.count(b"\n"), b"", text)
    lie = lie or pick.choice(list(QUIET))
    return replace(QUIET[lie](run), lie=lie)


def loud_lie(pick: Random, previous: int) -> PackRun:
    """Return a run that contradicts itself, or is over a limit, before it is opened."""
    text = _lines(pick, previous)
    run = PackRun(previous, previous + len(text), text.count(b"\n"), b"", text)
    lie = pick.choice(list(LOUD))
    return replace(LOUD[lie](run), lie=lie)


def rest_of(run: PackRun, position: int) -> PackRun:
    """Return an honest run of the bytes of *run* from *position* on."""
    text = run.text[position - run.previous :]
    events = text.count(b"\n") + (not text.endswith(b"\n"))
    return PackRun(position, run.position, events, packed(TEXT, text), text)


def _lines(pick: Random, previous: int) -> bytes:
    many = pick.choice((1, 1, 5, 40, 300))
    return b"".join(b"%010d %06d of many\n" % (previous, number) for number in range(many))


def _cut(pick: Random, previous: int, text: bytes) -> PackRun:
    """Leave some bytes out before the last event."""
    events = text.splitlines(keepends=True)
    before = [len(event) for event in events[:-1]]
    lengths = [*before, -_CUT, len(events[-1])]
    pack = packed(CUT_TEXT, cut_text(lengths, text), pick.choice((STORED, DEFLATE, ZSTD)))
    whole = b"".join(events[:-1]) + bytes(_CUT) + events[-1]
    return PackRun(previous, previous + len(whole), len(events), pack, whole, _CUT)


def _records(previous: int, text: bytes) -> bytes:
    records, at = [], previous
    for line in text.splitlines(keepends=True):
        records.append(lean_record(at, at + len(line), line[:-1].decode()))
        at += len(line)
    return framed(records)


# Lies -------------------------------------------------------------------------------------------

_Lie = Callable[[PackRun], PackRun]


def _text(**lies: int) -> _Lie:
    """Return a lie that is honest but for the head of its pack."""
    return lambda run: replace(run, pack=packed(TEXT, run.text, **lies))


def _of(make: Callable[[PackRun], bytes]) -> _Lie:
    return lambda run: replace(run, pack=make(run))


def _one_event_more(run: PackRun) -> PackRun:
    return replace(run, pack=packed(TEXT, run.text), events=run.events + 1)


def _records_of_another_place(run: PackRun) -> PackRun:
    records = _records(run.previous + 1, run.text)
    return replace(run, pack=packed(RECORDS, records), opens=True)


def _lengths_of_less(run: PackRun) -> PackRun:
    lengths = [len(run.text) - 1]
    return replace(run, pack=packed(CUT_TEXT, cut_text(lengths, run.text)), events=1)


def _one_length_less(run: PackRun) -> PackRun:
    """Its text is longer by as much as the length is that it lacks."""
    lengths = [len(run.text), -_LENGTH]
    pack = packed(CUT_TEXT, cut_text(lengths, run.text))
    return replace(run, pack=pack, events=1, skipped=_LENGTH)


def _too_many_lengths(run: PackRun) -> PackRun:
    content = b"\x7f\xff\xff\xff" + cut_text([], run.text)
    return replace(run, pack=packed(CUT_TEXT, content), events=1)


QUIET: Final[dict[str, _Lie]] = {
    "another CRC-32": _text(crc=1),
    "less than it says": _of(lambda run: packed(TEXT, run.text[:-1], size=len(run.text))),
    "more than it says": _of(lambda run: packed(TEXT, run.text + b"x", size=len(run.text))),
    "much more than it says": _of(lambda run: packed(TEXT, _BOMB, size=len(run.text))),
    "one event more": _one_event_more,
    "no deflate stream": _of(lambda run: packed(TEXT, run.text, ZSTD, codec=DEFLATE)),
    "no zstd frame": _of(lambda run: packed(TEXT, run.text, DEFLATE, codec=ZSTD)),
    "cut off": _of(lambda run: packed(TEXT, run.text)[:-1]),
    "bytes behind its end": _of(lambda run: packed(TEXT, run.text) + b"\0\0"),
    "text as records": _of(lambda run: packed(RECORDS, run.text)),
    "records of another place": _records_of_another_place,
    "lengths of less": _lengths_of_less,
    "too many lengths": _too_many_lengths,
    "one length less": _one_length_less,
}
"""Lies about what is inside, by what they are."""

LOUD: Final[dict[str, _Lie]] = {
    "an unknown form": _text(form=9),
    "an unknown codec": _text(codec=9),
    "a size over the limit": _text(size=2**31),
    "a size of nothing": _text(size=0),
    "another size than the interval": _of(lambda run: packed(TEXT, run.text + b"more\n")),
    "a stored size of more": _of(
        lambda run: packed(TEXT, run.text[:-1], STORED, size=len(run.text))
    ),
    "no content": _of(lambda run: packed(TEXT, b"", STORED)),
    "no head": _of(lambda run: b"\x01"),
}
"""Lies that a receiver finds before it opens the pack."""
