"""Finds rotated files that another shipper had under their former names, and knows no more.

Its paths need not name them, as the agent's should. If they are named later, and are not to be sent
again, each needs a position at its end.
"""

from collections.abc import Sequence

from agent.config.files import InputTable
from agent.inputs.files.paths.globs import DirectoryListing, FileInputs
from agent.inputs.files.paths.pattern_check import uncovered_rotations
from agent.inputs.files.taken_positions import TakenPosition, TakenPositions
from logdrive.host.disk import Disk, File, FileStat


def positions_of_rotated(
    tables: Sequence[InputTable], known: Sequence[TakenPosition], disk: Disk
) -> list[TakenPosition]:
    """Return a position for each rotated file that no input names and that is not *known*."""
    listing, inputs = DirectoryListing(disk), FileInputs(tables)
    taken = TakenPositions(disk, "/")
    taken.add(known)
    matches = list(inputs.scan_files(listing))
    found = []
    for path in uncovered_rotations(matches, inputs, listing):
        try:
            file = disk.open(path)
        except OSError:
            continue  # gone, or not ours to read: the agent won't read it either
        try:
            stat = file.stat()
            is_known = _is_known(taken, file, stat, path)
        finally:
            file.close()
        if stat.is_file and stat.size and not is_known:
            found.append(
                TakenPosition(path=path, offset=stat.size, inode=stat.inode, device=stat.device)
            )
    return found


def _is_known(taken: TakenPositions, file: File, stat: FileStat, path: str) -> bool:
    key = stat.device, stat.inode
    return taken.find(key, [path], lambda size: file.pread(size, 0)) is not None
