"""What the checkpoint says of a source: its entry, made and kept up to date."""

from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.identity import FirstLine
from agent.sources.incarnation_search import Counting
from agent.sources.paths import path_to_text
from agent.sources.place import FileLocation
from agent.sources.source import Source
from logdrive.model.numbers import position_of


def make_entry(source: Source, place: FileLocation, first_line: FirstLine) -> CheckpointEntry:
    """Return an entry that identifies *source*; `update_entry` adds what is known of it now."""
    return CheckpointEntry(
        origin=source.origin,
        stem=source.incarnations.stem,
        path=path_to_text(place.path),
        name=path_to_text(place.name),
        mount=path_to_text(place.mount),
        device=place.device,
        inode=place.inode,
        birth_ns=place.birth_ns,
        span=first_line.span,
        crc=first_line.crc,
    )


def update_entry(entry: CheckpointEntry, source: Source) -> None:
    """Let *entry* say what is known of *source* now, but for its first line."""
    _update_ids(entry, source)
    _update_acknowledged(entry, source)
    if (generation := source.generation) is not None:
        entry.start, entry.seen = generation.start, generation.seen
        entry.last = generation.last_number if generation.seen > source.position else 0
        entry.modified_ns = generation.modified_ns
        entry.prefix = generation.prefix
    entry.ending = entry.ended = None
    if source.ended is not None:
        entry.ended, entry.exact = source.ended.reason, source.ended.exact
    elif source.ending is not None:
        entry.ending, entry.exact = source.ending.reason, source.ending.exact


def _update_ids(entry: CheckpointEntry, source: Source) -> None:
    search = source.sibling_search
    if search is not None:  # until it is known to be another's copy, it is what its own ids say
        entry.stem = entry.origin = search.own.stem
        entry.count, entry.counting = 0, Counting.MANY.value
        entry.path = path_to_text(search.own_path)
        return
    entry.stem, entry.origin, entry.count = source.incarnations.stem, source.origin, source.count
    # it may have been sent once this is read
    counting = Counting.AFTER if source.counting is Counting.NEXT else source.counting
    entry.counting = counting.value


def _update_acknowledged(entry: CheckpointEntry, source: Source) -> None:
    number, store = source.greatest
    # the store may have gone back: what is known of bytes that are gone stays known
    if source.generation is None and position_of(number) < position_of(entry.number):
        entry.last = max(entry.last, entry.number, key=position_of)
    entry.number, entry.store = number, store
    entry.acknowledged = source.acknowledged.at_ms
    entry.undecided = source.undecided
    entry.resend, entry.skip = source.resend, source.skip_to
