"""Limits on Pravega's messages, and on what one connection may have under way."""

from logdrive.model.units import MIB

PRAVEGA_FRAME_BYTES = 0x00FFFFFF  # header included
PRAVEGA_READ_BYTES = 2 * MIB  # a server's cap on one SegmentRead
PRAVEGA_LIST_ITEMS = 65_536  # items of one list inside a message
# appended on one connection and not yet durable; beyond it no more is read
PRAVEGA_UNACKED_BYTES = 32 * MIB
# of one connection, however small: appends of others wait behind them
PRAVEGA_UNACKED_APPENDS = 8192
# of messages that are not whole, not done, or not taken, on all connections of a face
PRAVEGA_HELD_BYTES = 256 * MIB
# reads of one connection that may wait for data; further ones are answered empty
PRAVEGA_TAIL_READS = 1024
# writers set up at one time on one connection; beyond it the one not used for longest is forgotten
PRAVEGA_WRITERS = 65_536
# on all connections of a face, about 600 bytes each; none has more than are left
PRAVEGA_WRITERS_IN_ALL = 524_288
