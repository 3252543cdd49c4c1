"""From the checkpoint back to followed files (rules G1, G2, G4).

The file of each entry is looked for by inode; host name and device may have changed, and with the
device its birth time. What it holds decides: if its first line or the bytes before the position, or
before the end seen last, are others, the life has ended and the next one begins beside it. Where
only a first line can be compared, a file that was changed may be another life that began alike: it
is read on from, so that no line is lost or doubled, and the life that may have been is told as one
whose end nobody saw.
"""

from collections.abc import Iterable
from typing import Any

import msgspec

from agent.inputs.files.file import Generation
from agent.inputs.files.followed import Followed
from agent.inputs.files.globs import FileInputs
from agent.inputs.files.locate import Locator
from agent.inputs.files.tail import Tailer
from agent.records.batch import REMOVED, TRUNCATED, UNSURE, Mark
from agent.sources.checkpoint import CheckpointEntry
from agent.sources.file_log import FileLog
from agent.sources.identity import Fingerprinter, FirstLine, Identity
from agent.sources.incarnation_search import Counting
from agent.sources.paths import path_from_text
from agent.sources.place import FileLocation, same_birth
from agent.sources.readable import SourceTruncatedError
from agent.sources.registry import SourceRegistry
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk, FileStat
from logdrive.model.numbers import position_of


class Restorer:
    """Enters the entries of a checkpoint into the book. *inputs* tell which files are asked for."""

    def __init__(
        self,
        inputs: FileInputs,
        book: SourceRegistry,
        tailer: Tailer,
        namer: Fingerprinter,
        disk: Disk,
        clock: Clock,
        log: Any,
        file_log: FileLog,
    ) -> None:
        self._inputs = inputs
        self._book, self._tailer, self._namer, self._disk, self._clock, self._log = (
            book,
            tailer,
            namer,
            disk,
            clock,
            log,
        )
        self._file_log = file_log
        self._doubtful: list[CheckpointEntry] = []

    def restore(self, entries: Iterable[CheckpointEntry]) -> None:
        """Enter all *entries*; those whose files can't be looked for now become absent."""
        locator = Locator(self._disk, self._namer, self._inputs)
        self._doubtful = []
        for entry in entries:
            if entry.done is not None:
                self._book.add_ended(entry)
            elif entry.ended is not None:
                self._ended(entry, Mark(entry.ended, entry.exact))
            else:
                self._living(entry, locator)
        for entry in self._doubtful:  # all counts that the checkpoint has are known now
            self._doubt(entry)

    def retry(self) -> None:
        """Try once more to find what is absent."""
        if self._book.absent:
            self.restore(self._book.take_absent())

    def _living(self, entry: CheckpointEntry, locator: Locator) -> None:
        path = path_from_text(entry.path)
        place = FileLocation(
            path,
            path_from_text(entry.name),
            path_from_text(entry.mount),
            entry.device,
            entry.inode,
            entry.birth_ns,
        )
        inputs = self._inputs
        try:
            asked = inputs.settings_for(path)
            found = locator.find(place, moved=True)
            if found is None and asked is not None:
                found = locator.find_elsewhere(place)
            settings = asked or (inputs.settings_for(found[0]) if found is not None else None)
            if settings is None:
                self._book.add_absent(entry)
            elif found is None:
                self._file_log.warning(
                    "file gone while the agent was away",
                    path,
                    acknowledged=position_of(entry.number),
                    unknown="whether it grew beyond the "
                    f"{max(entry.seen, position_of(entry.number))} bytes seen last, and "
                    "by what",
                )
                self._ended(entry, Mark(REMOVED, exact=False))
            else:
                place.name, stat = found
                reborn = not same_birth(stat.birth_ns, place.birth_ns)
                place.device, place.birth_ns = stat.device, stat.birth_ns or place.birth_ns
                generation = Generation(
                    place, settings, start=entry.start, first_line=entry.first_line
                )
                self._open(entry, generation, stat, reborn=reborn)
        except OSError as error:
            self._file_log.warning(
                "file can't be looked for", path, reason=error.strerror or str(error)
            )
            self._book.add_absent(entry)

    def _open(
        self, entry: CheckpointEntry, generation: Generation, stat: FileStat, *, reborn: bool
    ) -> None:
        """Go on in the file if it is the same as before.

        If not, end the life; what has its inode now is followed as the next.

        With *reborn* its birth time changed, too: then it is another file, for the scan to find.
        """
        generation.resume_from(entry.number)
        generation.restore_seen(entry.seen, self._clock.monotonic())
        self._tailer.open(generation)
        try:
            generation.look(stat, self._clock.monotonic())
            generation.verify()
            if entry.last and not generation.matches_number(entry.last):
                raise SourceTruncatedError
            first_line = FirstLine.find_in(generation.head())
            if first_line is None or first_line.crc != entry.crc:  # it was truncated just now
                raise SourceTruncatedError
        except OSError:
            self._tailer.close(generation)  # it is looked for again, with a handle of its own
            raise
        except SourceTruncatedError:
            self._log.info(
                "file is another than before",
                path=generation.place.path,
                position=generation.position,
            )
            self._ended(entry, Mark(REMOVED if reborn else TRUNCATED, exact=False))
            if reborn:
                self._tailer.close(generation)
            else:
                self._tailer.follow(Followed(generation.successor()))
            return
        generation.set_first_line(first_line)
        place = generation.place
        identity = self._namer.identify(stat, place.mount, first_line)
        source = self._book.restore_source(entry, generation, identity)
        entry.device, entry.birth_ns = place.device, place.birth_ns
        if _like_others(entry, stat):
            self._doubtful.append(entry)
        self._tailer.follow(Followed(generation, source, counting=source.counting))
        self._tailer.close_if_crowded(generation)

    def _doubt(self, entry: CheckpointEntry) -> None:
        """Tell of the life that may have been before what is there now (rule P4): of no byte, with
        an end that nobody saw.
        """
        family = self._book.incarnations_of(entry.stem)
        counting = Counting.KNOWN if entry.counting == Counting.KNOWN.value else Counting.AFTER
        count = family.next_count()
        name = {"origin": family.origin_for(count), "count": count, "counting": counting.value}
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
        self._ended(lost, Mark(UNSURE, exact=False))

    def _ended(self, entry: CheckpointEntry, mark: Mark) -> None:
        """Enter a source whose bytes are gone: what was seen of them and not acknowledged is a gap,
        then the end record.
        """
        source = self._book.restore_source(entry, None, self._identity(entry))
        source.end_generation_at(
            mark, entry.start, max(entry.seen, source.position), self._clock.now_ms()
        )
        # found out late, while a connection stands that would not ask it again
        self._tailer.want(source)
        self._book.mark_changed()

    def _identity(self, entry: CheckpointEntry) -> Identity | None:
        """Return what names the lives of a file that is gone, where that may still be asked for."""
        if entry.first is None:
            return None
        return Identity(
            self._namer.agent,
            self._namer.host,
            path_from_text(entry.mount),
            entry.inode,
            entry.birth_ns,
            entry.first,
        )


def _like_others(entry: CheckpointEntry, stat: FileStat) -> bool:
    """Tell whether a file that was changed since the checkpoint could be compared by its first line
    only.
    """
    unchanged = stat.size == entry.seen and stat.modified_ns == (
        entry.modified_ns or stat.modified_ns
    )
    return not unchanged and max(position_of(entry.number), position_of(entry.last)) <= entry.span
