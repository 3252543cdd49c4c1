"""An ext4 file system in a file, which can be made to fail.

It is mounted where the test runs as root and may mount it.
"""

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest


class Ext4:
    """What is mounted at *path*; its blocks are in the file *image*."""

    def __init__(self, path: Path, image: Path) -> None:
        self.path, self._image = path, image

    def abort(self) -> None:
        """Let the file system find an error: it becomes read-only, as with errors=remount-ro.

        Files that are open can't be written to, either.
        """
        _run("mount", "-o", "remount,abort", str(self.path))

    def mount(self) -> None:
        """Mount it."""
        _run("mount", "-o", "loop", str(self._image), str(self.path))

    def unmount(self) -> None:
        """Unmount it; nothing of it may be open."""
        _run("umount", str(self.path))


@contextlib.contextmanager
def ext4(directory: Path) -> Iterator[Ext4]:
    """Make one and mount it below *directory*.

    Skips, in CI too, where loop devices can't be had: containers often have none.
    """
    if os.geteuid() != 0 or shutil.which("mkfs.ext4") is None:
        pytest.skip("only root may mount, and mkfs.ext4 is needed")
    image, path = directory / "image", directory / "mounted"
    path.mkdir()
    with image.open("wb") as file:
        file.truncate(16 << 20)
    _run("mkfs.ext4", "-q", str(image))
    made = Ext4(path, image)
    try:
        made.mount()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no file system can be mounted from a file: {error.stderr.decode().strip()}")
    try:
        yield made
    finally:
        if path.is_mount():
            subprocess.run(["umount", "-l", str(path)], check=True, capture_output=True)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, timeout=60)
