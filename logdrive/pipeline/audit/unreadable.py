"""Files of bronze that can't be read: found by an audit that reads all of them (`--full`)."""

from collections.abc import Iterable
from dataclasses import dataclass

from logdrive.pipeline.tables.check_files import check_file
from logdrive.pipeline.tables.failures import UnreadableFileError


@dataclass(frozen=True, slots=True)
class DamagedFile:
    """A file whose bytes a disk has changed or lost. It travels between processes."""

    path: str
    reason: str
    remedy: str

    @property
    def text(self) -> str:
        """The file as one line for a person."""
        return str(UnreadableFileError(self.path, self.reason, self.remedy))


def find_damage(path: str) -> DamagedFile | None:
    """Read the file at *path* whole; return what is wrong with it, None if nothing is.

    Raises `UnreadableFileError` where something else is, such as the user's permissions.
    """
    try:
        check_file(path)
    except UnreadableFileError as error:
        if not error.remedy:
            raise
        return DamagedFile(error.path, error.reason, error.remedy)
    return None


def only_damaged(found: Iterable[DamagedFile | None]) -> list[DamagedFile]:
    """Return those of *found* that are files, in the order of their paths."""
    return sorted((one for one in found if one is not None), key=lambda one: one.path)
