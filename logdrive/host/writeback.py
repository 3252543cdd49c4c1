"""What the kernel is told of a file that is being written."""

import os
from contextlib import suppress


def begin_writeback(descriptor: int, start: int, stop: int) -> None:
    """Let the kernel write the bytes from *start* to *stop* of a file to the disk, and don't wait.

    A sync at the end waits for all of a file otherwise. The advice says that the bytes are not
    needed: Linux keeps those that are not on the disk yet, and begins to write them
    (posix_fadvise(2)). It is no more than an advice, so nothing is raised.
    """
    if hasattr(os, "posix_fadvise"):
        with suppress(OSError):
            os.posix_fadvise(descriptor, start, stop - start, os.POSIX_FADV_DONTNEED)
