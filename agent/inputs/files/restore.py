"""Restores sources and followed files from the checkpoint (rules G1, G2, G4).

The file of each entry is searched by its inode. Host name and device may have changed, and with the
device the birth time. Then the content decides:

| compared                                             | then                                  |
|------------------------------------------------------|---------------------------------------|
| first line, the bytes before the position, and those | if they differ, the generation has    |
| before the end seen last                             | ended, and the file starts the next   |
| only the first line, and the file was changed        | the file is read on; a generation     |
|                                                      | `unsure` is added before it           |

In the second case the file may be another one with the same first line. Reading on loses and
doubles no line; the added generation has no byte, and tells the audit that its end is not known.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import msgspec

from agent.config.files import InputTable
from agent.inputs.files.copies.awaited import UNREADABLE_SECONDS, AwaitedRest
from agent.inputs.files.copies.search import Bases
from agent.inputs.files.file import Generation
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.paths.globs import FileInputs
from agent.inputs.files.paths.locate import Locator
from agent.inputs.files.tail import Tailer
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.file_log import FileLog
from agent.sources.identity import Fingerprinter, FirstLine, Identity
from agent.sources.incarnation_search import Counting
from agent.sources.paths import path_from_text
from agent.sources.place import FileLocation, same_birth
from agent.sources.readable import InputKind, SourceTruncatedError
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk, FileStat
from logdrive.model.numbers import position_of
from logdrive.records.runs import (
    FORGOTTEN,
    LET_GO,
    OUT_OF_SIGHT,
    REMOVED,
    SHIPPED,
    TRUNCATED,
    UNSURE,
    GapOrEndMark,
)

_READ_ELSEWHERE: Final = (TRUNCATED, REMOVED, OUT_OF_SIGHT, LET_GO, SHIPPED)
"""Why generations end whose bytes a copy may have, or their own compressed file has."""


@dataclass(frozen=True, slots=True)
class FoundName:
    """Where a followed file is now."""

    path: str
    """Its name, "" if it has none that is known."""

    named: bool
    """Whether an input names it, so that a scan finds it."""


class Restorer:
    """Adds the entries of a checkpoint to the registry, and their files to the tailer."""

    def __init__(
        self,
        inputs: FileInputs,
        registry: SourceRegistry,
        tailer: Tailer,
        fingerprinter: Fingerprinter,
        disk: Disk,
        clock: Clock,
        log: Any,
        file_log: FileLog,
    ) -> None:
        """Restore only files that belong to one of *inputs*."""
        self._inputs = inputs
        self._registry = registry
        self._tailer = tailer
        self._fingerprinter = fingerprinter
        self._disk = disk
        self._clock = clock
        self._log = log
        self._file_log = file_log
        self._unsure: list[CheckpointEntry] = []  # compared by their first line only
        # since when no input names a file that is gone, and that a copy may have (s)
        self._unnamed: dict[UUID, float] = {}
        # no store has said yet whether they are copies
        self._unasked: list[tuple[Source, FileLocation, FirstLine, Bases]] = []

    def restore_entries(self, entries: Iterable[CheckpointEntry]) -> None:
        """Restore all *entries*. Those whose files can't be searched now become absent."""
        for _ in self.restore_each(entries):
            pass

    def restore_each(self, entries: Iterable[CheckpointEntry]) -> Iterator[CheckpointEntry]:
        """Restore all *entries* as `restore_entries` does, and yield each."""
        locator = Locator(self._disk, self._fingerprinter, self._inputs)
        self._unsure, self._unasked = [], []
        for entry in entries:
            if entry.done is not None:
                self._registry.add_ended(entry)
            elif entry.ended is not None:
                # what was read of it and not acknowledged may be there still
                if entry.ended in _READ_ELSEWHERE and entry.seen > position_of(entry.number):
                    self._restore_ending(entry, entry.ended)
                else:
                    self._restore_ended(entry, GapOrEndMark(entry.ended, entry.exact))
            elif entry.ending is not None:
                self._restore_ending(entry, entry.ending)
            else:
                self._restore_living(entry, locator)
            yield entry

        # only now are all files of the checkpoint known
        self._search_siblings()
        # and all counts: these get the next ones
        for entry in self._unsure:
            self._add_unsure(entry)

    def _restore_ending(self, entry: CheckpointEntry, reason: str) -> None:
        """Restore a source whose file is gone, and whose rest may be in a copy."""
        settings, mark = self._settings_for(entry), GapOrEndMark(reason, entry.exact)
        if settings is not None:
            self._unnamed.pop(entry.origin, None)
            self._await_copy(entry, mark, settings)
            return
        now = self._clock.monotonic()
        if now - self._unnamed.setdefault(entry.origin, now) < UNREADABLE_SECONDS:
            # an input that names it again finds its copy where it is now
            self._registry.add_absent(entry, wanted=False)
        else:
            del self._unnamed[entry.origin]
            # it was a compressed file itself, which is not read to its end
            self._restore_ended(entry, GapOrEndMark(REMOVED) if reason == SHIPPED else mark)

    def _settings_for(self, entry: CheckpointEntry) -> InputTable | None:
        return self._inputs.settings_for(path_from_text(entry.path))

    def _search_siblings(self) -> None:
        """Have the store asked what restored files are copies of, where it was not (rule G5)."""
        if self._tailer.copies is None:
            return
        for source, place, first_line, bases in self._unasked:
            siblings = self._tailer.copies.beside.siblings_of(place, first_line, bases)
            self._registry.search_siblings(source, siblings)

    def retry_absent(self) -> None:
        """Try again to restore absent entries. Called before each scan."""
        if self._registry.absent:
            self.restore_entries(self._registry.take_absent(InputKind.FILES))

    def give_up_absent(self, origin: UUID, *, whole: bool) -> None:
        """Tell the receiver that the absent entry *origin* is given up: a gap, and its end.

        Its end is known if it is given up *whole*: its file had no more than was acknowledged.
        """
        entry = self._registry.take_forgotten(origin)
        self._unnamed.pop(origin, None)
        exact = whole and entry.seen <= position_of(entry.number)
        self._restore_ended(entry, GapOrEndMark(FORGOTTEN, exact=exact))

    def has_all_of(self, entry: CheckpointEntry) -> bool:
        """Return whether all that the file of *entry* holds now is acknowledged."""
        position = position_of(entry.number)
        known = entry.counting == Counting.KNOWN.value and not entry.undecided
        is_file = entry.input == InputKind.FILES.value and entry.ending is None
        if not is_file or not known or entry.seen > position:
            return False
        locator = Locator(self._disk, self._fingerprinter)
        try:
            location = locator.find_file(_place_of(entry), moved=True)
        except OSError:
            return False
        if location is None:
            return False
        _, stat = location
        return (stat.size, stat.modified_ns) == (position, entry.modified_ns)

    def find_name(self, place: FileLocation) -> FoundName:
        """Look for the file of *place* where it was, and where inputs look. Raises OSError."""
        locator = Locator(self._disk, self._fingerprinter, self._inputs)
        location = locator.find_file(place)
        if location is not None and self._inputs.settings_for(location[0]) is not None:
            return FoundName(location[0], named=True)
        # it may be in another directory that an input names
        if (matched := locator.find_in_inputs(place)) is not None:
            return FoundName(matched[0], named=True)
        return FoundName(location[0] if location is not None else "", named=False)

    def _restore_living(self, entry: CheckpointEntry, locator: Locator) -> None:
        """Restore an entry whose file existed when the checkpoint was written."""
        path, place = path_from_text(entry.path), _place_of(entry)
        inputs = self._inputs
        try:
            settings = inputs.settings_for(path)
            location = locator.find_file(place, moved=True)
            if location is None and settings is not None:
                location = locator.find_in_inputs(place)
            if settings is None and location is not None:
                settings = inputs.settings_for(location[0])  # its new name belongs to an input

            if settings is None:  # no input matches it: kept in the checkpoint, not read
                self._registry.add_absent(entry, wanted=False)
            elif location is None:
                self._await_copy(entry, GapOrEndMark(REMOVED, exact=False), settings)
            else:
                place.name, stat = location
                reborn = not same_birth(stat.birth_ns, place.birth_ns)
                place.device, place.birth_ns = stat.device, stat.birth_ns or place.birth_ns
                generation = Generation(
                    place, settings, start=entry.start, first_line=entry.first_line
                )
                generation.prefix = entry.prefix
                self._resume(entry, generation, stat, reborn=reborn)
        except OSError as error:
            self._file_log.warning(
                "file can't be looked for", path, reason=error.strerror or str(error)
            )
            self._registry.add_absent(entry, wanted=True)

    def _resume(
        self, entry: CheckpointEntry, generation: Generation, stat: FileStat, *, reborn: bool
    ) -> None:
        """Continue to read the file of *entry* if its content is the same as before.

        If not, the generation has ended, and the file starts the next one. With *reborn* its birth
        time differs, too: then it is another file, which a scan will find, as is one that has only
        its inode. Raises OSError.
        """
        generation.resume_from(entry.number)
        generation.restore_seen(entry.seen, self._clock.monotonic())
        try:
            self._tailer.open_files.open_file(generation)
        except FileNotFoundError:  # renamed since it was found: the next scan finds it again
            self._registry.add_absent(entry, wanted=True)
            return
        try:
            generation.on_stat(stat, self._clock.monotonic())
            generation.verify_content()
            if entry.last and not generation.matches_number(entry.last):
                raise SourceTruncatedError
            # of the same bytes, though the input's line end may be another one now
            line_end = generation.settings.line_end_bytes
            first_line = FirstLine.find_again(generation.read_head(), entry.span, line_end)
            # truncated since the comparison
            if first_line.crc != entry.crc:
                raise SourceTruncatedError
            bases = self._stat_bases(entry, generation)
        except OSError:
            # the next attempt opens it again
            self._tailer.open_files.close_file(generation)
            raise
        except SourceTruncatedError:
            self._log.info(
                "file is another than before",
                path=generation.place.path,
                position=generation.position,
            )
            # its inode may have been given to a file that is not read so, a compressed one perhaps
            is_gone = reborn or not self._tailer.looks.is_wanted(generation.place)
            if is_gone:
                self._tailer.open_files.close_file(generation)
            else:
                successor = generation.make_successor()
                self._tailer.looks.name_anew(successor)
                self._tailer.follow_file(FollowedFile(successor, counting=Counting.AFTER))
            mark = GapOrEndMark(REMOVED if is_gone else TRUNCATED, exact=False)
            self._await_copy(entry, mark, generation.settings)
            return

        generation.set_first_line(first_line)
        generation.keep_prefix()
        place = generation.place
        identity = self._fingerprinter.identify(stat, place, first_line)
        source = self._registry.restore_source(entry, generation, identity)
        entry.device, entry.birth_ns = place.device, place.birth_ns
        # one that came after others, whose counts are known, is no copy
        if entry.store is None and source.count == 0:
            self._unasked.append((source, place, first_line, bases))
        if _has_only_first_line(entry, stat):
            self._unsure.append(entry)

        self._tailer.follow_file(FollowedFile(generation, source, counting=source.counting))
        self._tailer.open_files.close_if_crowded(generation)

    def _stat_bases(self, entry: CheckpointEntry, generation: Generation) -> Bases:
        """Return the files that this one may be a copy of; none if a store was asked for it."""
        copies = self._tailer.copies
        if copies is None or entry.store is not None:
            return {}
        return copies.beside.stat_bases(generation.place)

    def _add_unsure(self, entry: CheckpointEntry) -> None:
        """Add a generation that may have existed before the current one (rules G4, P4).

        It has no byte, and its end is not known.
        """
        incarnations = self._registry.incarnations_of(entry.stem)
        counting = Counting.KNOWN if entry.counting == Counting.KNOWN.value else Counting.AFTER
        count = incarnations.next_count()
        name = {
            "origin": incarnations.origin_for(count),
            "count": count,
            "counting": counting.value,
        }
        lost = msgspec.structs.replace(
            entry,
            **name,
            number=0,
            last=0,
            store=None,
            start=0,
            seen=0,
            acknowledged=0,
            undecided=False,
        )

        self._file_log.warning(
            "file may be another than before: only its first line could be compared",
            path_from_text(entry.path),
        )
        self._restore_ended(lost, GapOrEndMark(UNSURE, exact=False))

    def _await_copy(self, entry: CheckpointEntry, mark: GapOrEndMark, settings: InputTable) -> None:
        """Restore a source whose file is gone, as *mark* says; a copy may have its rest (G5)."""
        if self._tailer.copies is None:
            self._restore_ended(entry, mark)
            return
        source = self._restore_gone(entry)
        # the store may have more of it than the checkpoint says: more to compare
        source.registration.require()
        # not all files of the checkpoint are followed yet: they are no copies
        awaited = AwaitedRest.from_entry(source, entry, settings, mark)
        self._tailer.copies.await_rest(awaited, at_once=False)

    def _restore_ended(self, entry: CheckpointEntry, mark: GapOrEndMark) -> None:
        """Restore a source whose bytes are gone.

        It sends a gap for the bytes that were seen and not acknowledged, then its end record.
        """
        source = self._restore_gone(entry)
        source.end_generation_at(
            mark, entry.start, max(entry.seen, source.position), self._clock.now_ms()
        )
        self._registry.mark_changed()

    def _restore_gone(self, entry: CheckpointEntry) -> Source:
        """Restore a source whose file is gone."""
        source = self._registry.restore_source(entry, None, self._identity(entry))
        # the connection may be open already, and would not register it otherwise
        self._tailer.enqueue_source(source)
        return source

    def _identity(self, entry: CheckpointEntry) -> Identity | None:
        """Return the identity of a file that is gone, None if its count is known already."""
        if entry.first is None:
            return None
        return Identity(
            self._fingerprinter.agent,
            self._fingerprinter.host,
            path_from_text(entry.mount),
            entry.inode,
            entry.birth_ns,
            entry.first,
        )


def _place_of(entry: CheckpointEntry) -> FileLocation:
    return FileLocation(
        path_from_text(entry.path),
        path_from_text(entry.name),
        path_from_text(entry.mount),
        entry.device,
        entry.inode,
        entry.birth_ns,
    )


def _has_only_first_line(entry: CheckpointEntry, stat: FileStat) -> bool:
    """Return whether a file was changed and could be compared only by its first line."""
    unchanged = stat.size == entry.seen and stat.modified_ns == (
        entry.modified_ns or stat.modified_ns
    )
    return not unchanged and max(position_of(entry.number), position_of(entry.last)) <= entry.span
