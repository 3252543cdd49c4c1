"""Limits on Pravega's messages, and on what one connection may have under way."""

from logdrive.model.units import KIB, MIB

PRAVEGA_FRAME_BYTES = 0x00FFFFFF  # header included
PRAVEGA_READ_BYTES = 2 * MIB  # a server's cap on one SegmentRead
PRAVEGA_LIST_ITEMS = 65_536  # items of one list inside a message
PRAVEGA_LOCATED_APPENDS = 8_192  # appends in one AppendsLocated: some 5 ms for the index
PRAVEGA_HEAD_BYTES = 512 * KIB  # heads of appends in one AppendsLocated, all together
# appended on one connection and not yet durable; above it the server stops reading
PRAVEGA_UNACKED_BYTES = 32 * MIB
# the same as a number of appends, which may be small: appends of others wait behind them
PRAVEGA_UNACKED_APPENDS = 8192
# memory of incomplete messages, unanswered requests and unsent answers, on all connections
PRAVEGA_HELD_BYTES = 256 * MIB
# reads of one connection that may wait for data; more are answered at once, without data
PRAVEGA_TAIL_READS = 1024
# writers set up on one connection; above it the one that was not used for longest is forgotten
PRAVEGA_WRITERS = 65_536
# writers on all connections together, about 600 bytes each
PRAVEGA_WRITERS_IN_ALL = 524_288
