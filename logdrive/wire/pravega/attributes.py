"""Ids of the segment attributes that have a meaning in Pravega's protocol."""

from typing import Final
from uuid import UUID

_WELL_KNOWN: Final = 1 << 127
EVENTS: Final = UUID(int=_WELL_KNOWN | 1)
SCALE_TYPE: Final = UUID(int=_WELL_KNOWN | 2)
SCALE_RATE: Final = UUID(int=_WELL_KNOWN | 3)
ROLLOVER: Final = UUID(int=_WELL_KNOWN | 4)
"""EVENTS is the number of events, which the store keeps and clients only read. The others are the
segment's scaling and rollover policy.
"""
TABLE: Final = UUID(int=_WELL_KNOWN | 9)
"""Makes a segment a table (the protocol's "segment type"): 1 + the length of its keys, or 1 if the
length varies.
"""
