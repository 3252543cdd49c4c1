"""The lock on a directory of tables, where there is no room for it."""

import errno
from pathlib import Path

import pytest

from logdrive.errors import MAKE_ROOM, StorageError
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.tables.failures import FullDiskError
from logdrive.pipeline.tables.lock import make_and_lock_tables


class RefusingDisk(SystemDisk):
    """Makes no directory, for the reason *number*."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self._number = number

    def make_directory(self, path: str) -> None:
        raise OSError(self._number, "refused", path)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_only_a_full_disk_is_told_as_one_that_may_have_room_later(
    tmp_path: Path, number: int
) -> None:
    place = str(tmp_path / "gold")
    with (
        pytest.raises(StorageError, match=f"{place} can't be written") as refused,
        make_and_lock_tables(place, RefusingDisk(number)),
    ):
        pass
    is_full = number == errno.ENOSPC
    assert isinstance(refused.value, FullDiskError) == is_full
    assert (MAKE_ROOM in str(refused.value)) == is_full
