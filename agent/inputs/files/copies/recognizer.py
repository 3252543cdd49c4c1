"""Compares a file with the generations that have its first line, and a name that its own goes on
after (rule G5).
"""

import contextlib
from typing import Final

from agent.inputs.files.copies.judge import (
    NEW,
    Judgement,
    LivingFile,
    Sample,
    Suspect,
    is_likely,
    judge,
    judge_unpacked,
)
from agent.inputs.files.copies.known_life import KnownLife, LifeState, life_of, life_of_entry
from agent.inputs.files.copies.samples import LivingPlainFile
from agent.inputs.files.file import Generation
from agent.inputs.files.prefix import prefixes_agree
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.first_lines import Known
from agent.sources.identity import FirstLine
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.host.disk import Disk
from logdrive.model.numbers import position_of

_MANY: Final = 64
"""Generations with one first line above which only those with the same first KiB are compared."""
_CRC_BYTES: Final = 4


class CopyRecognizer:
    """Finds what a file may be a copy of. Reads files, and changes nothing."""

    def __init__(self, registry: SourceRegistry, disk: Disk) -> None:
        self._registry = registry
        self._disk = disk

    def living_like(self, suspect: Suspect, first_line: FirstLine) -> list[Source]:
        """Return the living sources that *suspect* may be a copy of."""
        return [
            life.source
            for life in self._lives_like(suspect, first_line)
            if life.state is LifeState.LIVING
            and life.source is not None
            and is_likely(suspect, life)
        ]

    def judge(self, suspect: Suspect, first_line: FirstLine) -> Judgement:
        """Return what *suspect* is. Raises OSError if it can't be read."""
        return self._judge(suspect, self._lives_like(suspect, first_line))

    def judge_for(self, suspect: Suspect, source: Source) -> Judgement:
        """Return what *suspect*, which has the first line of *source*, is to that one alone."""
        life = life_of(source, self._registry.sources.get(source))
        return self._judge(suspect, [life]) if life is not None else NEW

    def judge_unpacked(self, path: str, sample: Sample, first_line: FirstLine) -> Judgement:
        """Return what the content of a compressed file is. Raises OSError."""
        lives = self._lives_like(Suspect(path, sample, rests=True), first_line)
        with contextlib.ExitStack() as opened:
            return judge_unpacked(
                path, sample, [(life, self._file_of(life, opened)) for life in lives]
            )

    def positions_like(self, path: str, sample: Sample, first_line: FirstLine) -> set[int]:
        """Return the positions that decide what *sample*, with that first line, is a copy of."""
        return {
            position_of(number)
            for life in self._lives_like(Suspect(path, sample, rests=True), first_line)
            if prefixes_agree(sample.prefix, life.prefix)
            for number in (life.number, life.last)
        }

    def _judge(self, suspect: Suspect, lives: list[KnownLife]) -> Judgement:
        with contextlib.ExitStack() as opened:
            return judge(suspect, [(life, self._file_of(life, opened)) for life in lives])

    def _lives_like(self, suspect: Suspect, first_line: FirstLine) -> list[KnownLife]:
        """Return the generations that *suspect* may be by first line and name.

        `judge` looks at names, too: here, so that the files of others are not opened.
        """
        known = self._registry.first_lines.find(first_line.crc)
        if len(known) > _MANY:
            begin = suspect.sample.prefix[:_CRC_BYTES]
            known = [one for one in known if begin and self._prefix_of(one)[:_CRC_BYTES] == begin]
        return [
            life
            for life in map(self._life, known)
            if life is not None
            and life.first_line.span == first_line.span
            and life.may_be_at(suspect.path)
        ]

    def _life(self, known: Known) -> KnownLife | None:
        if isinstance(known, CheckpointEntry):
            return life_of_entry(known)
        return life_of(known, self._registry.sources.get(known))

    def _prefix_of(self, known: Known) -> bytes:
        if isinstance(known, CheckpointEntry):
            return known.prefix
        if known.generation is not None:
            return known.generation.prefix
        entry = self._registry.sources.get(known)
        return entry.prefix if entry is not None else b""

    def _file_of(self, life: KnownLife, opened: contextlib.ExitStack) -> LivingFile | None:
        """Return the file of a living generation, opened until *opened* is closed; None if it is
        not to be had.
        """
        if life.state is not LifeState.LIVING or life.source is None:
            return None
        generation = life.source.generation
        if not isinstance(generation, Generation):
            return None
        try:
            if generation.file is not None:
                return LivingPlainFile(generation.file)
            file = self._disk.open(generation.place.name)
            opened.callback(file.close)
            return LivingPlainFile(file) if generation.place.is_at(file.stat()) else None
        except OSError:
            return None
