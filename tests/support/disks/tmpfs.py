"""A file system of its own, small enough to be filled: mounted where the test runs as root."""

import contextlib
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import unavailable


@dataclass(frozen=True)
class Tmpfs:
    """What is mounted at *path*."""

    path: Path

    @property
    def free(self) -> int:
        """Bytes that still fit."""
        stat = os.statvfs(self.path)
        return stat.f_bavail * stat.f_frsize

    def fill(self, *, but: int = 0) -> Path:
        """Write a file that leaves *but* bytes free, in whole pages; return its path."""
        path = self.path / "filler"
        with path.open("wb", buffering=0) as file, contextlib.suppress(OSError):
            left = self.free - but
            while left > 0:
                left -= file.write(bytes(min(left, 1 << 16)))
        return path

    def remount(self, mode: str) -> None:
        """Mount it anew, "ro" or "rw"."""
        subprocess.run(
            ["mount", "-o", f"remount,{mode}", str(self.path)], check=True, capture_output=True
        )


@contextlib.contextmanager
def tmpfs(path: Path, mebibytes: int) -> Iterator[Tmpfs]:
    """Mount a tmpfs at *path*, made if missing; skip the test if that is not allowed.

    In CI that is a failure instead.
    """
    path.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0:
        unavailable("only root may mount a tmpfs")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={mebibytes}m", "tmpfs", str(path)],
        capture_output=True,
        text=True,
    )
    if mounted.returncode != 0:
        unavailable(f"a tmpfs can't be mounted: {mounted.stderr.strip()}")
    try:
        yield Tmpfs(path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True, capture_output=True)
