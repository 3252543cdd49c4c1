"""Limits that all rooms share on sizes that a peer or a file may ask for.

A size is compared with its limit before memory is allocated. Units are in the comments.
"""

from logdrive.model.units import GIB, KIB, MIB

# One event, one run, one batch (delivery rule R3), in encoded bytes.
RECORD_BYTES = 768 * KIB  # payload of one record
RUN_BYTES = 896 * KIB  # sum over the records of one run of 8 + payload
RUN_RECORDS = 999  # records of one run
HEADER_BYTES = 32 * KIB  # payload of a batch's header record
ATTRIBUTES_BYTES = 16 * KIB  # JSON of a source's attributes
# nesting of tables and lists, so that parsing a header does not recurse deep
ATTRIBUTES_DEPTH = 32
BLOCK_TEXT_BYTES = 256 * KIB  # text of one block record, before JSON

# Packs (rule R8); compressed, a pack is a record.
PACK_BYTES = 4 * MIB  # content of one pack; a line of more is several events
PACK_RATIO = 1200  # content for one compressed byte: deflate's own ceiling is 1,032
PACK_RATIO_FREE = 64 * KIB  # content up to which the ratio does not count
PACK_ITEMS = 1 << 16  # records or lengths of one pack: each becomes an object
PACK_LINES = 768 * KIB  # lines of one pack: no more fit one that is stored as it is

# Events of foreign peers that are longer than a record, sent in pieces (rule R6).
EVENT_BYTES = 16 * MIB  # size of a whole event
PIECES_WITHIN = 1 * GIB  # distance in a segment from an event's first piece to its last
# the same where offsets count records: as many as fill 1 GiB if each has 64 bytes
PIECES_WITHIN_RECORDS = PIECES_WITHIN // 64

# Identity and positions (rules G2, G4, P1).
FIRST_LINE_BYTES = 1024  # bytes of a first line that count for the origin id
TAIL_BYTES = 256  # bytes before a position that its check covers
MAX_POSITION = 1 << 46  # above every position, in bytes
