"""The files with secrets and users are closed after reading, whatever happens."""

from collections.abc import Callable

import pytest

from logdrive.errors import LogdriveError
from logdrive.net.pem_files import read_pem
from logdrive.services.auth.users import read_auth_file, read_users
from logdrive.services.pravega.server import endpoint
from tests.support.memory.disk import MemoryDisk, MemoryFile

PATH = "/etc/file"


class _Counting(MemoryDisk):
    """Knows which files were opened."""

    def __init__(self) -> None:
        super().__init__(["/etc"])
        self.opened: list[MemoryFile] = []

    def open(self, path: str, **flags: bool) -> MemoryFile:
        self.opened.append(super().open(path, **flags))
        return self.opened[-1]


def _secret(disk: MemoryDisk) -> object:
    return read_auth_file(disk, "token_secret", PATH, 100)


def _endpoint(disk: MemoryDisk) -> object:
    return endpoint.read_endpoint(disk, "/etc")


@pytest.mark.parametrize(
    ("read", "content", "good"),
    [
        (_secret, b"x" * 64, True),
        (_secret, b"x" * 101, False),
        (lambda disk: read_users(disk, PATH), b"user = []", True),
        (lambda disk: read_users(disk, PATH), b"\xff", False),
        (lambda disk: read_users(disk, PATH), b"[user", False),
        (_endpoint, b'{"pravega":"127.0.0.1:6000","token":"pass"}', True),
        (_endpoint, b"{", False),
        (lambda disk: read_pem(PATH, disk), b"key", True),
    ],
)
def test_the_file_handle_is_closed(
    read: Callable[[MemoryDisk], object], content: bytes, good: bool
) -> None:
    disk = _Counting()
    disk.write(PATH, content)
    disk.write("/etc/endpoint.json", content)
    disk.opened.clear()
    try:
        read(disk)
    except LogdriveError:
        assert not good
    else:
        assert good
    assert len(disk.opened) == 1
    with pytest.raises(OSError, match="closed"):
        disk.opened[0].pread(1, 0)


def test_the_handle_of_an_unreadable_file_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    disk, pread = _Counting(), MemoryFile.pread
    disk.write(PATH, b"secret")
    disk.opened.clear()
    with monkeypatch.context() as patch:
        patch.setattr(MemoryFile, "pread", _failing)
        with pytest.raises(LogdriveError):
            _secret(disk)
    assert len(disk.opened) == 1
    with pytest.raises(OSError, match="closed"):
        pread(disk.opened[0], 1, 0)


def _failing(file: MemoryFile, size: int, offset: int) -> bytes:
    raise OSError(5, "Input/output error")
