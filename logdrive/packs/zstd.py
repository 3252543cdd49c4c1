"""Compresses and decompresses whole zstd frames, with contexts that each thread makes only once.

To make a context takes as long as to compress 5 KiB. None may be used by two threads at a time.
Frames are written by the library that Python has from 3.14 on (PEP 784), which takes every
parameter of zstd, and read by `zstandard`, which tells what a frame says of itself (adr/0049).
"""

import sys
import threading
from collections.abc import Callable
from typing import Final

import zstandard

_FAST: Final = 1  # the level with parameters of our own
_FAST_STRATEGY: Final = 1  # ZSTD_fast
_WINDOW_LOG, _HASH_LOG, _MIN_MATCH = 18, 12, 7
"""Logarithms of the window and of the table at level 1, both of which fit a processor's own caches,
and the shortest match: of log lines they save a tenth of the time, for a hundredth more bytes.
"""
_STEP: Final = 3
"""How fast the search for matches goes on where it finds none: saves another tenth of the time."""
_LITERALS, _ALWAYS = 1002, 1
"""`ZSTD_c_literalCompressionMode`, by its number in zstd.h, and `ZSTD_ps_enable`. By itself zstd
does not compress the bytes between matches where a step is set, which makes frames a third longer.
"""

_Compress = Callable[[bytes | memoryview], bytes]


class _Contexts(threading.local):
    """The contexts of one thread."""

    def __init__(self) -> None:
        # by level
        self.compressors: dict[int, _Compress] = {}
        # by the limit on the window, in bytes
        self.decompressors: dict[int, zstandard.ZstdDecompressor] = {}


_contexts = _Contexts()


def compress(content: bytes | memoryview, level: int) -> bytes:
    """Return *content* as one frame, which says its size and has no checksum."""
    found = _contexts.compressors.get(level)
    if found is None:
        found = _contexts.compressors[level] = _make_compressor(level)
    return found(content)


def _make_compressor(level: int) -> _Compress:
    # only here: who compresses nothing with zstd, as most agents, saves the memory
    if sys.version_info >= (3, 14):
        from compression import zstd as library
    else:
        from backports import zstd as library

    name = library.CompressionParameter
    options = {int(name.compression_level): level}
    if level == _FAST:
        options |= {
            int(name.strategy): _FAST_STRATEGY,
            int(name.window_log): _WINDOW_LOG,
            int(name.hash_log): _HASH_LOG,
            int(name.min_match): _MIN_MATCH,
            int(name.target_length): _STEP,
            _LITERALS: _ALWAYS,
        }
    context = library.ZstdCompressor(options=options)

    def compress_frame(content: bytes | memoryview) -> bytes:
        # for the frame's head, and a window no larger than needed
        context.set_pledged_input_size(len(content))
        return context.compress(content, context.FLUSH_FRAME)

    return compress_frame


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
