"""Limits of one embedded store."""

from dataclasses import dataclass

from logdrive.model.units import KIB, MIB


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """Limits of one store; tests make them small."""

    # bytes of data in one append
    entry: int = 16 * MIB
    # bytes of a segment's name, in UTF-8
    segment_name: int = 1 * KIB

    # bytes written before one fdatasync, 88 per entry included; a single larger entry is one group.
    # Two groups are in memory
    group: int = 8 * MIB
    # entries of one group; they are reported in one go, about 10 µs each
    group_entries: int = 1024
    # bytes of one log file; also what a start after a crash reads at most, besides the index
    log_file: int = 256 * MIB
    # bytes submitted and not yet durable, 512 per entry included
    pending: int = 256 * MIB

    # log files held open for readers
    open_files: int = 64
    # bytes read at once if entries are small
    read_ahead: int = 256 * KIB
    # bytes of entries kept in memory for readers: checked ones, and those at a followed tail
    kept: int = 16 * MIB
    # bytes copied to the log's end in one step, to reclaim a log file; a larger entry goes alone
    copy: int = 4 * MIB
    # whether the log is written past the page cache, if the file system allows it
    direct: bool = True

    # bytes of one page of the index's files
    page: int = 4 * KIB
    # pages of each kind kept in memory
    pages: int = 1024
    # writers' numbers kept in memory besides those changed since the last index; 250 bytes each
    numbers: int = 65_536
