"""Limits on what a Lumberjack peer may send, compared before memory is taken for it; and the names
by which the two ends agree on a dialect.
"""

from dataclasses import dataclass
from typing import Final

from logdrive.model.limits import ATTRIBUTES_BYTES, RECORD_BYTES
from logdrive.model.units import KIB, MIB

NATIVE: Final = "logdrive/1"
"""The dialect's name: in TLS ALPN, in logs and in headers of batches."""
PACKED: Final = "logdrive/1.1"
"""The same dialect in ALPN, from a reader that takes Z frames. Nothing else is different."""


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
    # frames inside one C frame, however small it is packed
    frames_free: int = 4096
    # further frames for each packed byte, since each costs CPU time; frames whose numbers count up
    # do not pack to less than a byte
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

# Memory that is counted for what has no size of its own.
CONNECTION_BYTES = 32 * KIB  # an idle connection, TLS included
SOURCE_BYTES = 2 * KIB  # a registered source, without its attributes

# One `logdrive/1` connection (rule D1).
WINDOW_BYTES = 8 * MIB  # unpacked bytes of one window
WINDOWS_IN_FLIGHT = 16  # windows that are not acknowledged
LIVE_INDICES = 65_536  # sources registered at one time
LIVE_ATTRIBUTES_BYTES = 64 * MIB  # bytes of their attributes together
REFUSED_SOURCES = 1024  # indices of refused sources that were not freed
UNANSWERED_SOURCES = 256  # S frames that wait for their P
