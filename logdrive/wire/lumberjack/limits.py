"""Limits on what a peer may ask of a reader of Lumberjack frames, compared before memory is
taken.
"""

from dataclasses import dataclass

from logdrive.model.limits import ATTRIBUTES_BYTES, RECORD_BYTES
from logdrive.model.units import KIB, MIB


@dataclass(frozen=True, slots=True)
class LumberjackLimits:
    """What a reader of Lumberjack frames accepts from its peer."""

    envelope: int = 16 * MIB  # bytes of one C frame's payload, packed
    inflated: int = 64 * MIB  # bytes of one C frame's payload, unpacked
    # unpacked bytes for one packed byte (deflate's own ceiling is 1032); judged beyond 64 KiB
    ratio: int = 1200
    payload: int = 16 * MIB  # bytes of one J frame's JSON
    pairs: int = 1024  # key/value pairs of one D frame
    item: int = 1 * MIB  # bytes of one key or value of a D frame
    # frames inside one C frame, and pairs inside its D frames: each becomes an object
    frames: int = 1 << 18
    frames_free: int = 4096  # frames inside one C frame, however small it is packed; beyond these
    # so many for each packed byte: each costs CPU time. What counts up takes a byte a frame, or
    # more
    frames_per_byte: int = 2
    window: int = 1 << 32  # events a W frame may announce; a counter only, never a size of memory
    attributes: int = ATTRIBUTES_BYTES  # bytes of an S frame's JSON
    error_text: int = 1 * KIB  # bytes of an E frame's text
    zstd_window: int = 8 * MIB  # bytes of history a zstd frame may ask the reader to keep


PLAIN_LUMBERJACK = LumberjackLimits()
"""For Lumberjack v1 and v2 peers."""

LOGDRIVE_1 = LumberjackLimits(
    envelope=8 * MIB, inflated=8 * MIB, payload=RECORD_BYTES, window=65_535
)
"""For peers that agreed on `logdrive/1` (rule D1)."""

CONNECTION_BYTES = 32 * KIB  # of memory that an idle connection is taken to need, TLS and all
WINDOW_BYTES = 8 * MIB  # unpacked bytes of one logdrive/1 window
WINDOWS_IN_FLIGHT = 16  # unacknowledged windows a logdrive/1 writer may have
LIVE_INDICES = 65_536  # sources registered at one time on one connection
LIVE_ATTRIBUTES_BYTES = 64 * MIB  # of the attributes of all of them
SOURCE_BYTES = 2 * KIB  # of memory that a registered source is taken to need beside its attributes
REFUSED_SOURCES = 1024  # whose indices one connection has not freed
UNANSWERED_SOURCES = 256  # S frames waiting for their P
