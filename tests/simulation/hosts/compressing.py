"""Compresses bytes as gzip, bzip2, xz and zstd do."""

import bz2
import gzip
import lzma
from collections.abc import Callable

import zstandard

SUFFIXES: dict[str, Callable[[bytes], bytes]] = {
    ".gz": lambda data: gzip.compress(data, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor(write_checksum=True).compress(data),
}
"""What makes the content of a file with this suffix."""
