"""Compresses and decompresses whole zstd frames, with contexts that each thread makes only once.

To make a context takes as long as to compress 5 KiB. None may be used by two threads at a time.
"""

import threading
from typing import Final

import zstandard

_HASH_LOG, _WINDOW_LOG, _MIN_MATCH = 12, 18, 7
"""Logarithms of the table and of the window at level 1, both of which fit a processor's own caches,
and the shortest match: of log lines they save a tenth of the time, for a hundredth more bytes.
"""
_FAST: Final = 1  # the level with these parameters


class _Contexts(threading.local):
    """The contexts of one thread."""

    def __init__(self) -> None:
        # by level
        self.compressors: dict[int, zstandard.ZstdCompressor] = {}
        # by the limit on the window, in bytes
        self.decompressors: dict[int, zstandard.ZstdDecompressor] = {}


_contexts = _Contexts()


def compress(content: bytes | memoryview, level: int) -> bytes:
    """Return *content* as one frame, which says its size and has no checksum."""
    found = _contexts.compressors.get(level)
    if found is None:
        found = _contexts.compressors[level] = _make_compressor(level)
    return found.compress(content)


def _make_compressor(level: int) -> zstandard.ZstdCompressor:
    if level != _FAST:
        return zstandard.ZstdCompressor(level=level, write_checksum=False)
    parameters = zstandard.ZstdCompressionParameters.from_level(
        level,
        hash_log=_HASH_LOG,
        window_log=_WINDOW_LOG,
        min_match=_MIN_MATCH,
        write_checksum=False,
    )
    return zstandard.ZstdCompressor(compression_params=parameters)


def decompress(frame: bytes | memoryview, window: int) -> bytes:
    """Return the content of *frame*, which says its size and needs at most *window* bytes of it.

    Check the size first: the memory is taken at once. Raises `zstandard.ZstdError`.
    """
    found = _contexts.decompressors.pop(window, None)
    if found is None:
        found = zstandard.ZstdDecompressor(max_window_size=window)
    content = found.decompress(frame, allow_extra_data=False)
    # not after an error: of a frame that is cut off a window stays in memory
    _contexts.decompressors[window] = found
    return content
