"""Attributes of segments that mean something to Pravega's protocol, and are named by UUIDs of its
own.
"""

from typing import Final
from uuid import UUID

_WELL_KNOWN: Final = 1 << 127
EVENTS: Final = UUID(int=_WELL_KNOWN | 1)
SCALE_TYPE: Final = UUID(int=_WELL_KNOWN | 2)
SCALE_RATE: Final = UUID(int=_WELL_KNOWN | 3)
ROLLOVER: Final = UUID(int=_WELL_KNOWN | 4)
"""The number of events is kept by the store and can only be read; the others are a segment's
policy.
"""
TABLE: Final = UUID(int=_WELL_KNOWN | 9)
"""The attribute that makes a segment a table, the protocol's "segment type": 1 + the length of its
keys, 1 where that varies.
"""
