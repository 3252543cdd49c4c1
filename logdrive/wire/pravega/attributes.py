"""Ids of the segment attributes that have a meaning in Pravega's protocol."""

from typing import Final
from uuid import UUID

_WELL_KNOWN: Final = 1 << 127
EVENTS: Final = UUID(int=_WELL_KNOWN | 1)
"""Number of events in the segment, which the store keeps and clients only read."""
SCALE_TYPE: Final = UUID(int=_WELL_KNOWN | 2)
"""Kind of the segment's scaling policy: a value of `CreateSegment.scale_type`."""
SCALE_RATE: Final = UUID(int=_WELL_KNOWN | 3)
"""Rate of that policy, in events or KiB per second."""
ROLLOVER: Final = UUID(int=_WELL_KNOWN | 4)
"""Size in bytes at which the segment's chunks are rolled over."""
TABLE: Final = UUID(int=_WELL_KNOWN | 9)
"""Makes a segment a table (the protocol's "segment type"): 1 + the length of its keys, or 1 if the
length varies.
"""
LOCATES_APPENDS: Final = UUID("6c6f6764-7269-7665-8000-000000000001")
"""1 in every segment of a face that answers `own.LocateAppends`; a Pravega has no such attribute.
"""
