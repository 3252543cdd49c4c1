"""Records, appends and batches of S2, and the rules that they obey.

See docs/protocols/s2.md#records and docs/protocols/s2.md#command-records.
"""

from typing import Final

import msgspec

from logdrive.wire.s2.errors import invalid
from logdrive.wire.s2.limits import (
    BATCH_BYTES,
    BATCH_HEADERS,
    BATCH_RECORDS,
    FENCING_TOKEN_BYTES,
    HEADER_OVERHEAD_BYTES,
    RECORD_BYTES,
    RECORD_OVERHEAD_BYTES,
    TRIM_BYTES,
)
from logdrive.wire.s2.positions import StreamPosition as StreamPosition

Headers = tuple[tuple[bytes, bytes], ...]
"""Names and values in the order given; a name may come twice."""

FENCE: Final = b"fence"
TRIM: Final = b"trim"


class Record(msgspec.Struct, frozen=True, gc=False):
    """A record to append; *timestamp* is the client's, in milliseconds since 1970."""

    body: bytes
    headers: Headers = ()
    timestamp: int | None = None


class AppendInput(msgspec.Struct, frozen=True, gc=False):
    """One append, done as a whole or not at all, and its conditions (None: none)."""

    records: tuple[Record, ...]
    match_seq_num: int | None = None
    fencing_token: str | None = None


class AppendAck(msgspec.Struct, frozen=True, gc=False):
    """What became of an append: its first record, the place after its last, the stream's tail.

    The times of *start* and *end* are those of the first and of the last record.
    """

    start: StreamPosition
    end: StreamPosition
    tail: StreamPosition


class SequencedRecord(msgspec.Struct, frozen=True, gc=False):
    """A record of a stream."""

    seq_num: int
    timestamp: int
    headers: Headers
    body: bytes


class ReadBatch(msgspec.Struct, frozen=True, gc=False):
    """Consecutive records; *tail* if the reader is near it. A heartbeat has only a tail."""

    records: tuple[SequencedRecord, ...]
    tail: StreamPosition | None = None


class Fence(msgspec.Struct, frozen=True, gc=False):
    """The command that sets a stream's fencing token; "" removes it."""

    token: str


class Trim(msgspec.Struct, frozen=True, gc=False):
    """The command that removes the records before *seq_num*: at most itself and what is before."""

    seq_num: int


def metered_size(record: Record | SequencedRecord) -> int:
    """Return the bytes of *record* that S2 counts against its limits."""
    size = RECORD_OVERHEAD_BYTES + len(record.body)
    for name, value in record.headers:
        size += HEADER_OVERHEAD_BYTES + len(name) + len(value)
    return size


def fence_record(token: str) -> Record:
    """Return the record that makes *token* the stream's fencing token."""
    return Record(token.encode(), ((b"", FENCE),))


def trim_record(seq_num: int) -> Record:
    """Return the record that removes those before *seq_num*."""
    return Record(seq_num.to_bytes(TRIM_BYTES), ((b"", TRIM),))


def command_of(record: Record | SequencedRecord) -> Fence | Trim | None:
    """Return the command that *record* is, if it is one.

    Raises `S2Error`, 422, for an empty header name that makes no command.
    """
    for name, _ in record.headers:
        if not name:
            break
    else:
        return None
    if len(record.headers) != 1:
        raise invalid("an empty header name is for the only header of a command record")
    operation, body = record.headers[0][1], record.body
    if operation == FENCE:
        if len(body) > FENCING_TOKEN_BYTES:
            raise invalid(f"a fencing token of {len(body)} bytes, over {FENCING_TOKEN_BYTES}")
        try:
            return Fence(body.decode())
        except UnicodeDecodeError:
            raise invalid("a fencing token that is not UTF-8") from None
    if operation == TRIM:
        if len(body) != TRIM_BYTES:
            raise invalid(f"a trim command of {len(body)} bytes instead of {TRIM_BYTES}")
        return Trim(int.from_bytes(body))
    raise invalid(f"an unknown command {operation[:32]!r}: there are fence and trim")


def check_count(count: int) -> None:
    """Raise `S2Error`, 422, if an append can't have *count* records."""
    if not 1 <= count <= BATCH_RECORDS:
        raise invalid(f"an append of {count} records: 1 to {BATCH_RECORDS} are allowed")


def check_input(append: AppendInput) -> int:
    """Return the metered size of *append*; raise `S2Error`, 422, if it breaks a limit or has a
    command that is none.
    """
    check_count(len(append.records))
    token = append.fencing_token
    if token is not None and len(token.encode()) > FENCING_TOKEN_BYTES:
        raise invalid(f"a fencing token of over {FENCING_TOKEN_BYTES} bytes")
    total = headers = 0
    for record in append.records:
        size = RECORD_OVERHEAD_BYTES + len(record.body)
        if record.headers:
            size = metered_size(record)
            headers += len(record.headers)
            command_of(record)
        if size > RECORD_BYTES:
            raise invalid(f"a record of {size} metered bytes, over {RECORD_BYTES}")
        total += size
    if total > BATCH_BYTES:
        raise invalid(f"an append of {total} metered bytes, over {BATCH_BYTES}")
    if headers > BATCH_HEADERS:
        raise invalid(f"an append with {headers} headers, over {BATCH_HEADERS}")
    return total
