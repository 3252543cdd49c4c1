"""Limits of S2's protocol. See docs/protocols/s2.md#limits.

"Metered" bytes are S2's own measure of a record: `logdrive.wire.s2.records.metered_size`.
"""

from logdrive.model.units import KIB, MIB

# One record, and one append
RECORD_BYTES = 1 * MIB  # metered
BATCH_RECORDS = 1000
BATCH_BYTES = 1 * MIB  # metered, all records together
# Headers of an append, all records together. S2 has no such limit; more of them, each of two bytes,
# would fit in BATCH_BYTES, but read back not in a frame.
BATCH_HEADERS = 240_000
FENCING_TOKEN_BYTES = 36  # UTF-8
TRIM_BYTES = 8  # body of a trim command

# What a metered size counts beside the bytes themselves
RECORD_OVERHEAD_BYTES = 8
HEADER_OVERHEAD_BYTES = 2

# Numbers of records and times are u64.
U64_MAX = 2**64 - 1

# One batch of a read, and a whole unary read
READ_RECORDS = 1000
READ_BYTES = 1 * MIB  # metered
UNARY_WAIT_SECONDS = 60  # a longer wait of a unary read is cut to this one

# HTTP bodies
UNARY_BODY_BYTES = 2 * MIB  # a request's, after decompression
COMPRESSED_FROM_BYTES = 1 * KIB  # shorter bodies and messages travel as they are

# Frames of sessions
FRAME_HEAD_BYTES = 3  # the length
FRAME_BYTES = 2 * MIB  # what the length says: flag byte and body
MESSAGE_BYTES = FRAME_BYTES - 1  # a body after decompression
ZSTD_WINDOW_BYTES = 8 * MIB  # the memory a zstd frame may ask for; what level 19 uses

# Names
BASIN_NAME_MIN_BYTES = 8
BASIN_NAME_MAX_BYTES = 48
STREAM_NAME_BYTES = 512  # UTF-8
REQUEST_TOKEN_BYTES = 36
ACCESS_TOKEN_ID_BYTES = 96
LIST_ITEMS = 1000  # of a page

# Heartbeats of a reading session that waits at the tail: a random gap between these
HEARTBEAT_MIN_SECONDS = 5.0
HEARTBEAT_MAX_SECONDS = 15.0
