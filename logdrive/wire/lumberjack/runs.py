"""Cuts J frames that follow one another into `JsonRun`s, without Python code for a small frame."""

from logdrive.kernel.loops import cut_events
from logdrive.model.framing import EVENT_HEAD, Part
from logdrive.model.limits import RECORD_BYTES, RUN_BYTES, RUN_RECORDS
from logdrive.model.units import KIB
from logdrive.wire.lumberjack.frames import EVENT, JsonRun

_LARGE = 16 * KIB
_SHARE = 32
"""Payloads of at least `_LARGE` bytes, and at least a `_SHARE`th of the buffer that they are in,
are not copied. A view of a smaller one would keep the whole buffer in memory for little.
"""
_NO_EVENT_TYPE = b"\0\0\0\0"


def run_at(data: bytes, at: int, limit: int, envelope: int) -> tuple[JsonRun, int]:
    """Return the whole J frames from *at* on whose numbers go up by one, and their length in bytes.

    The first is known to be whole. They are as many as fit one batch (rule R3), with no payload
    longer than *limit*. A payload over `RECORD_BYTES` comes by itself.
    """
    _, first, size = EVENT.unpack_from(data, at)
    if size > RECORD_BYTES or (size >= _LARGE and size * _SHARE >= len(data)):
        return _large(data, at, envelope)
    end = min(len(data), at + RUN_BYTES)
    events, count, length = cut_events(data, at, end, min(limit, RECORD_BYTES), RUN_RECORDS)
    return JsonRun(first, count, (events,), len(events), envelope), length


def _large(data: bytes, at: int, envelope: int) -> tuple[JsonRun, int]:
    """Return one frame without copying its payload."""
    _, first, size = EVENT.unpack_from(data, at)
    end = at + EVENT.size + size
    parts: tuple[Part, ...] = (_NO_EVENT_TYPE, memoryview(data)[at + EVENT.size - 4 : end])
    return JsonRun(first, 1, parts, EVENT_HEAD + size, envelope), end - at
