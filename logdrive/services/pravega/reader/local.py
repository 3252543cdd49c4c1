"""Reads a segment from the log files of its store, on the store's host.

It saves a store and a reader the way through a socket. What can't be read so, for whatever reason,
is left to a reader over the network, which also tells of damage.
"""

from collections.abc import Callable, Iterator

from logdrive.errors import StorageError
from logdrive.host.disk import Disk
from logdrive.services.pravega.client.located import LocatedAppends
from logdrive.store.local_log import LocalLog
from logdrive.store.store_files import StoreFiles, find_store_files

Locate = Callable[[int, int], LocatedAppends | None]
"""Returns where the first appends of [start, end) are, None if the service does not tell."""


def read_local_pieces(disk: Disk, locate: Locate, start: int, end: int) -> Iterator[bytes]:
    """Yield the bytes of [*start*, *end*) in order, as far as the log files of this host have them.

    Ends without an error where they don't: read the rest over the network. A piece has about 1 MiB,
    or is one append. Raises what *locate* raises.
    """
    while start < end:
        located = locate(start, end)
        if located is None or located.files is None or not _is_here(disk, located.files):
            return
        try:
            with LocalLog(disk, located.files.directory, located.store) as log:
                for offset, data in log.read_appends(located.extents):
                    before, size = start - offset, end - offset
                    yield data if before == 0 and len(data) <= size else data[before:size]
                    start = min(end, offset + len(data))
        except (OSError, StorageError):  # gone, not for us to read, or damaged
            return


def _is_here(disk: Disk, files: StoreFiles) -> bool:
    try:
        return find_store_files(disk, files.directory, files.host) == files
    except OSError:
        return False
