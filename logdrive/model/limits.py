"""Every size that a peer or a file may ask of us. Compared before memory is taken; units stand in the comments."""

from dataclasses import dataclass

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB

# One event, one run, one batch (delivery rule R3), in encoded bytes.
RECORD_BYTES = 768 * KIB
RUN_BYTES = 896 * KIB  # sum of 8 + payload over the records of one run
RUN_RECORDS = 999
HEADER_BYTES = 32 * KIB
ATTRIBUTES_BYTES = 16 * KIB
ATTRIBUTES_DEPTH = 32  # tables and lists inside one another, so that no reader of a header need recurse far
BLOCK_TEXT_BYTES = 256 * KIB  # text of one block record, before JSON

# Events of foreign peers that are longer than a record, in pieces (rule R6).
EVENT_BYTES = 16 * MIB  # of one event, put together
PIECES_WITHIN = 1 * GIB  # of a segment, from an event's first piece to its last

# Identity and positions (rules G2, G4, P1).
FIRST_LINE_BYTES = 1024
TAIL_BYTES = 256  # bytes before a position that its check covers
MAX_POSITION = 1 << 46


@dataclass(frozen=True, slots=True)
class LumberjackLimits:
    """What a reader of Lumberjack frames accepts from its peer."""

    envelope: int = 16 * MIB  # bytes of one C frame's payload, packed
    inflated: int = 64 * MIB  # bytes of one C frame's payload, unpacked
    ratio: int = 1200  # unpacked bytes for one packed byte (deflate's own ceiling is 1032); judged beyond 64 KiB
    payload: int = 16 * MIB  # bytes of one J frame's JSON
    pairs: int = 1024  # key/value pairs of one D frame
    item: int = 1 * MIB  # bytes of one key or value of a D frame
    frames: int = 1 << 18  # frames inside one C frame, and pairs inside its D frames: each becomes an object
    frames_free: int = 4096  # frames inside one C frame, however small it is packed; beyond these
    frames_per_byte: int = 2  # so many for each packed byte: each costs CPU time. What counts up takes a byte a frame, or more
    window: int = 1 << 32  # events a W frame may announce; a counter only, never a size of memory
    attributes: int = ATTRIBUTES_BYTES  # bytes of an S frame's JSON
    error_text: int = 1 * KIB  # bytes of an E frame's text
    zstd_window: int = 8 * MIB  # bytes of history a zstd frame may ask the reader to keep


PLAIN_LUMBERJACK = LumberjackLimits()
"""For Lumberjack v1 and v2 peers."""

LOGDRIVE_1 = LumberjackLimits(envelope=8 * MIB, inflated=8 * MIB, payload=RECORD_BYTES, window=65_535)
"""For peers that agreed on `logdrive/1` (rule D1)."""

CONNECTION_BYTES = 32 * KIB  # of memory that an idle connection is taken to need, TLS and all
WINDOW_BYTES = 8 * MIB  # unpacked bytes of one logdrive/1 window
WINDOWS_IN_FLIGHT = 16  # unacknowledged windows a logdrive/1 writer may have
LIVE_INDICES = 65_536  # sources registered at one time on one connection
LIVE_ATTRIBUTES_BYTES = 64 * MIB  # of the attributes of all of them
SOURCE_BYTES = 2 * KIB  # of memory that a registered source is taken to need beside its attributes
REFUSED_SOURCES = 1024  # whose indices one connection has not freed
UNANSWERED_SOURCES = 256  # S frames waiting for their P

PRAVEGA_FRAME_BYTES = 0x00FFFFFF  # header included
PRAVEGA_READ_BYTES = 2 * MIB  # a server's cap on one SegmentRead
PRAVEGA_LIST_ITEMS = 65_536  # items of one list inside a message
PRAVEGA_UNACKED_BYTES = 32 * MIB  # appended on one connection and not yet durable; beyond it no more is read
PRAVEGA_HELD_BYTES = 256 * MIB  # of messages that are not whole, not done, or not taken, on all connections of a face
PRAVEGA_TAIL_READS = 1024  # reads of one connection that may wait for data; further ones are answered empty
PRAVEGA_WRITERS = 65_536  # writers set up at one time on one connection; beyond it the one not used for longest is forgotten
PRAVEGA_WRITERS_IN_ALL = 524_288  # on all connections of a face, about 600 bytes each; none has more than are left


@dataclass(frozen=True, slots=True)
class StoreLimits:
    """What one embedded store takes on."""

    entry: int = 16 * MIB  # bytes of data of one append
    segment_name: int = 1 * KIB  # bytes of a segment's name, in UTF-8
    group: int = 8 * MIB  # bytes written before one fdatasync, with 88 an entry; a single larger entry still goes whole. Two are in memory
    group_entries: int = 1024  # entries of one group, which are settled in one go, about 10 µs each
    log_file: int = 256 * MIB  # bytes of one log file; also what a start after a crash reads at most, index aside
    pending: int = 256 * MIB  # bytes submitted and not yet durable, with a toll of 512 an entry
    open_files: int = 64  # log files held open for readers
    read_ahead: int = 256 * KIB  # bytes read at once where entries are small
    copy: int = 4 * MIB  # bytes copied forward in one step, to free a log file; a single larger entry still goes whole
    direct: bool = True  # the log is written past the page cache where the file system lets it
    page: int = 4 * KIB  # bytes of one page of what the index keeps on disk
    pages: int = 1024  # pages of each kind kept in memory
    numbers: int = 65_536  # writers' numbers kept in memory beside those changed since the last index; about 250 bytes each


@dataclass(frozen=True, slots=True)
class TableLimits:
    """What one table segment takes on."""

    key: int = 8 * KIB  # bytes of a key
    fixed_key: int = 256  # bytes of a key in a table whose keys have one length
    entry: int = 1 * MIB  # bytes of an entry as the log has it: 17, key and value
    keys: int = 1 << 20  # keys of one table, and of all tables in memory together as far as they are not in use; about 250 bytes each
    page: int = 2 * MIB  # bytes of keys and values after which an iterator or a walk of the log stops
    answer: int = 8 * MIB  # bytes of keys and values that one request may ask for
    compact_from: int = 1 * MIB  # bytes of log below which it is left as it is
