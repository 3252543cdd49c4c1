"""Units of size, and of offsets."""

from typing import Literal

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

OffsetUnit = Literal["bytes", "records"]
"""What the offsets of a segment count: bytes at Pravega; at S2 and Iggy they count records."""
