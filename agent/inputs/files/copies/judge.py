"""Decides what a file is that begins like a generation which the agent knows (rule G5). Pure.

The file's first line is that of each generation passed in; `FirstLines` finds them. Its name is the
generation's own, or *related*: it goes on after that, as `app.log.1` does after `app.log`. Files of
other names are never compared: two runs of one program may write the same bytes. Nor is a file at
rest dropped or held under the generation's own path: it is the next life there.

A *copy* is shorter than what was read of the generation, or as long; a *continuation* has more. The
evidence is *strong* where the CRCs at 1, 2, 4 … 64 KiB agree, and at least 1 KiB after the first
line. Where there are fewer bytes, the name must be related, and a copy must be as long as what was
read.

| the generation            | the file                                  | then                     |
|---------------------------|-------------------------------------------|--------------------------|
| gone, its rest looked for | a continuation, or all that was read      | REST: it is read on here |
| "                         | the same under the generation's own path  | MOVED: it lives on here  |
| "                         | a copy that grew within 10 s              | HELD                     |
| "                         | its first line, while the store is asked  | HELD                     |
| "                         | a copy at rest, related                   | COPY                     |
| living                    | its bytes, as far as both go              | HELD                     |
| living, without a name    | all its bytes, and perhaps more           | MOVED                    |
| absent                    | strong evidence, or all that was seen, or | HELD                     |
|                           | it grew within 10 s                       |                          |
| ended                     | a copy at rest, related                   | COPY                     |
| "                         | a continuation                            | NEW, from where it ended |
| any                       | anything else                             | NEW                      |
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from agent.inputs.files.copies.known_life import KnownLife, LifeState
from agent.inputs.files.prefix import prefixes_agree
from logdrive.model.numbers import position_of

REST_SECONDS: Final = 10.0
"""Seconds without growth after which a copy counts as whole."""


class Sample(Protocol):
    """The bytes of a file that may be a copy."""

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    @property
    def text_size(self) -> int:
        """How many are before the NULs at the end, which may be set aside and say nothing (P5)."""
        ...

    @property
    def prefix(self) -> bytes:
        """CRCs of the first of them."""
        ...

    def agrees_at(self, number: int) -> bool:
        """Return whether the bytes before a position have the check in *number*, or it has none."""
        ...


class LivingFile(Protocol):
    """The file of a living generation, as it is now."""

    @property
    def has_name(self) -> bool:
        """Whether it is still in a directory."""
        ...

    @property
    def size(self) -> int:
        """Its size."""
        ...

    def begins_like(self, sample: Sample) -> bool:
        """Return whether the file and *sample* agree as far as both go."""
        ...


class CopyVerdict(IntEnum):
    """What a file is; of several the greatest counts."""

    NEW = 0
    """A new source."""
    COPY = 1
    """A copy with nothing left to read."""
    HELD = 2
    """Perhaps a copy: look again later."""
    MOVED = 3
    """The same generation, which has moved here."""
    REST = 4
    """The rest of a generation whose file is gone."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What a file is, and of which generation."""

    verdict: CopyVerdict
    life: KnownLife | None = None
    """The generation; None for a new source."""
    start: int = 0
    """The position from which a new source is wanted: what is before it is another's."""
    covered: bool = False
    """For HELD: whether all that the file has is surely in the generation's, too."""


NEW: Final = Judgement(CopyVerdict.NEW)


@dataclass(frozen=True, slots=True)
class Suspect:
    """A file that begins like a known generation."""

    path: str
    sample: Sample
    rests: bool
    """Whether it did not grow for `REST_SECONDS`."""
    packed: bool = False
    """Whether it is a compressed file: no next life is written to its path."""


def judge(suspect: Suspect, lives: Iterable[tuple[KnownLife, LivingFile | None]]) -> Judgement:
    """Return what *suspect* is. Each of *lives* comes with its file if it is living."""
    return _judge(suspect, lives, _judge_living)


def judge_unpacked(
    path: str, sample: Sample, lives: Iterable[tuple[KnownLife, LivingFile | None]]
) -> Judgement:
    """Return what the content of the compressed file *path* is; it is whole, and does not grow.

    As `judge` does, but what a living file has is read from that file: it is a copy.
    """
    suspect = Suspect(path, sample, rests=True, packed=True)
    return _judge(suspect, lives, _judge_unpacked_living)


def _judge(
    suspect: Suspect,
    lives: Iterable[tuple[KnownLife, LivingFile | None]],
    judge_living: Callable[[Suspect, KnownLife, LivingFile | None], Judgement],
) -> Judgement:
    best = NEW
    for life, file in lives:
        if not _may_be(suspect, life):
            continue
        if life.state is LifeState.AWAITED:
            judged = _judge_awaited(suspect, life)
        elif life.state is LifeState.ENDED:
            judged = _judge_ended(suspect, life)
        elif life.state is LifeState.ABSENT:
            judged = _judge_absent(suspect, life)
        else:
            judged = judge_living(suspect, life, file)
        if (judged.verdict, judged.start) > (best.verdict, best.start):
            best = judged
    return best


def _may_be(suspect: Suspect, life: KnownLife) -> bool:
    return life.may_be_at(suspect.path) and prefixes_agree(suspect.sample.prefix, life.prefix)


def _judge_unpacked_living(suspect: Suspect, life: KnownLife, file: LivingFile | None) -> Judgement:
    if not life.is_related(suspect.path):
        return NEW
    # it is closed, and its name is gone: soon its rest is looked for
    if file is None:
        return Judgement(CopyVerdict.HELD, life)
    has_no_more = suspect.sample.size <= file.size and file.begins_like(suspect.sample)
    return Judgement(CopyVerdict.COPY, life) if has_no_more else NEW


def _judge_awaited(suspect: Suspect, life: KnownLife) -> Judgement:
    sample = suspect.sample
    in_its_place = suspect.path == life.path
    if not is_likely(suspect, life) and not (in_its_place and suspect.packed):
        return NEW
    strong = life.is_strong(sample.size, sample.prefix)
    if sample.size < life.position:
        # of so few bytes only the first line was compared
        is_copy = strong and life.is_related(suspect.path)
        if in_its_place or (suspect.rests and not is_copy):
            return NEW
        verdict = CopyVerdict.COPY if suspect.rests else CopyVerdict.HELD
        return Judgement(verdict, life, covered=strong)
    if not _has_all_read(sample, life):
        return NEW
    if not strong and not _has_all_seen(sample, life):
        return Judgement(CopyVerdict.HELD, life) if life.asked else NEW
    # what is written to that name comes into this file from now on
    return Judgement(CopyVerdict.MOVED if in_its_place else CopyVerdict.REST, life)


def _judge_ended(suspect: Suspect, life: KnownLife) -> Judgement:
    sample = suspect.sample
    # the name of the file that is written to: its next life may begin like the last one
    if suspect.path == life.path:
        return NEW
    strong = life.is_strong(sample.size, sample.prefix)
    if sample.text_size > life.position:
        goes_on = strong and sample.agrees_at(life.number)
        return Judgement(CopyVerdict.NEW, life, life.position) if goes_on else NEW
    ends_there = sample.text_size <= life.position <= sample.size
    if not strong and not (ends_there and sample.agrees_at(life.number)):
        return NEW
    verdict = CopyVerdict.COPY if suspect.rests else CopyVerdict.HELD
    return Judgement(verdict, life, covered=True)


def _judge_absent(suspect: Suspect, life: KnownLife) -> Judgement:
    sample = suspect.sample
    strong = life.is_strong(sample.size, sample.prefix)
    related = life.is_related(suspect.path)
    sure = strong or (_has_all_read(sample, life) and _has_all_seen(sample, life))
    if (sure and related) or ((strong or related) and not suspect.rests):
        return Judgement(CopyVerdict.HELD, life, covered=strong or sample.size == life.position)
    return NEW


def _judge_living(suspect: Suspect, life: KnownLife, file: LivingFile | None) -> Judgement:
    sample = suspect.sample
    if not is_likely(suspect, life):
        return NEW
    strong = life.is_strong(sample.size, sample.prefix)
    # it can't be compared now: if it was truncated, the next look at it says so
    if file is None:
        return NEW if suspect.rests else Judgement(CopyVerdict.HELD, life, covered=strong)
    if suspect.path == life.path and sample.size < life.position:
        return NEW
    if not file.begins_like(sample):
        return NEW

    if strong and not file.has_name and sample.size >= file.size and _has_all_read(sample, life):
        return Judgement(CopyVerdict.MOVED, life)
    # what it has is in the living file, too: it is another file only once it has more
    is_copy = strong and sample.size <= file.size and suspect.path != life.path
    if is_copy or not suspect.rests:
        covered = strong or sample.size <= file.size
        return Judgement(CopyVerdict.HELD, life, covered=covered)
    return NEW


def is_likely(suspect: Suspect, life: KnownLife) -> bool:
    """Return whether *suspect* may be a copy by the CRCs of its first bytes, or by its name."""
    sample = suspect.sample
    return life.is_strong(sample.size, sample.prefix) or life.is_related(suspect.path)


def _has_all_read(sample: Sample, life: KnownLife) -> bool:
    """Return whether *sample* has what was read of *life*, and what was seen of it."""
    return (
        sample.size >= life.position
        and sample.agrees_at(life.number)
        and (sample.size < position_of(life.last) or sample.agrees_at(life.last))
    )


def _has_all_seen(sample: Sample, life: KnownLife) -> bool:
    """Return whether a *sample* of few bytes, which has all that was read, is no chance.

    It must have all that was seen of *life*, and that more than the first line, or nothing more.
    """
    known_to = max(life.position, position_of(life.last))
    all_text = sample.text_size <= known_to <= sample.size
    return life.first_line.span < known_to <= sample.size or all_text
