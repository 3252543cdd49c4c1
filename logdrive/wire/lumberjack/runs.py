"""J frames that follow one another -> `JsonRun`s: no work of Python's for a frame that is a small
one.
"""

from logdrive.kernel.loops import cut_events
from logdrive.model.framing import EVENT_HEAD, Part
from logdrive.model.limits import RECORD_BYTES, RUN_BYTES, RUN_RECORDS
from logdrive.model.units import KIB
from logdrive.wire.lumberjack.frames import EVENT, JsonRun

_LARGE = 16 * KIB
_SHARE = 32
"""A view keeps all of what it was cut from: only payloads of so large a part of it are worth that,
and they are not copied.
"""
_NO_EVENT_TYPE = b"\0\0\0\0"


def run_at(data: bytes, at: int, limit: int, envelope: int) -> tuple[JsonRun, int]:
    """Return the J frames from *at* on whose numbers go up by one, the first known to be whole, and
    how long they are.

    As many as fit one batch (rule R3); no payload is longer than *limit*. A payload over
    `RECORD_BYTES` comes by itself.
    """
    _, first, size = EVENT.unpack_from(data, at)
    if size > RECORD_BYTES or (size >= _LARGE and size * _SHARE >= len(data)):
        return _large(data, at, envelope)
    end = min(len(data), at + RUN_BYTES)
    events, count, length = cut_events(data, at, end, min(limit, RECORD_BYTES), RUN_RECORDS)
    return JsonRun(first, count, (events,), len(events), envelope), length


def _large(data: bytes, at: int, envelope: int) -> tuple[JsonRun, int]:
    """Return one frame, its payload not copied."""
    _, first, size = EVENT.unpack_from(data, at)
    end = at + EVENT.size + size
    parts: tuple[Part, ...] = (_NO_EVENT_TYPE, memoryview(data)[at + EVENT.size - 4 : end])
    return JsonRun(first, 1, parts, EVENT_HEAD + size, envelope), end - at
