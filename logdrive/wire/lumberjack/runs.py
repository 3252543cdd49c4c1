"""Cuts J frames that follow one another into `JsonRun`s, without Python code for a small frame; and
Z frames.
"""

from logdrive.kernel.loops import cut_events
from logdrive.model.framing import EVENT_HEAD, Part
from logdrive.model.limits import RECORD_BYTES, RUN_BYTES, RUN_RECORDS
from logdrive.model.units import KIB
from logdrive.wire.lumberjack.frames import EVENT, JsonRun, PackFrame

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
    if size > RECORD_BYTES or _is_large(data, size):
        return _large(data, at, envelope)
    end = min(len(data), at + RUN_BYTES)
    events, count, length = cut_events(data, at, end, min(limit, RECORD_BYTES), RUN_RECORDS)
    return JsonRun(first, count, (events,), len(events), envelope), length


def pack_at(data: bytes, at: int, envelope: int) -> PackFrame:
    """Return the whole Z frame at *at*."""
    _, sequence, size = EVENT.unpack_from(data, at)
    event = _event(data, at, size)
    parts = event if _is_large(data, size) else (b"".join(event),)
    return PackFrame(sequence, parts, EVENT_HEAD + size, envelope)


def _is_large(data: bytes, size: int) -> bool:
    return size >= _LARGE and size * _SHARE >= len(data)


def _large(data: bytes, at: int, envelope: int) -> tuple[JsonRun, int]:
    """Return one frame without copying its payload."""
    _, first, size = EVENT.unpack_from(data, at)
    run = JsonRun(first, 1, _event(data, at, size), EVENT_HEAD + size, envelope)
    return run, EVENT.size + size


def _event(data: bytes, at: int, size: int) -> tuple[Part, ...]:
    """Return the payload of the frame at *at* as a Pravega event; it is not copied."""
    payload = at + EVENT.size
    return _NO_EVENT_TYPE, memoryview(data)[payload - 4 : payload + size]
