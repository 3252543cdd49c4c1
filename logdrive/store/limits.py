"""Limits of one embedded store."""

from dataclasses import dataclass

from logdrive.model.units import KIB, MIB


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """What one embedded store takes on."""

    entry: int = 16 * MIB  # bytes of data of one append
    segment_name: int = 1 * KIB  # bytes of a segment's name, in UTF-8
    # bytes written before one fdatasync, with 88 an entry; a single larger entry still goes whole.
    # Two are in memory
    group: int = 8 * MIB
    group_entries: int = 1024  # entries of one group, which are settled in one go, about 10 µs each
    # bytes of one log file; also what a start after a crash reads at most, index aside
    log_file: int = 256 * MIB
    pending: int = 256 * MIB  # bytes submitted and not yet durable, with a toll of 512 an entry
    open_files: int = 64  # log files held open for readers
    read_ahead: int = 256 * KIB  # bytes read at once where entries are small
    # bytes copied forward in one step, to free a log file; a single larger entry still goes whole
    copy: int = 4 * MIB
    direct: bool = True  # the log is written past the page cache where the file system lets it
    page: int = 4 * KIB  # bytes of one page of what the index keeps on disk
    pages: int = 1024  # pages of each kind kept in memory
    # writers' numbers kept in memory beside those changed since the last index; about 250 bytes
    # each
    numbers: int = 65_536
