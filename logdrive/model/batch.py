"""The header record at the start of each batch (rules R4, R5)."""

from typing import Final, Literal

import msgspec

HEADER_PREFIX: Final = b'{"logdrive":{"v":1,'
"""The bytes that every header begins with; other versions also begin with `{"logdrive":{"v":`."""

HeaderForm = Literal["text", "records"]
"""What a pack holds, as headers name it: a file's own bytes, or records."""


class BatchHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The header record of a batch: its source, positions, counts, times and attributes."""

    v: int = 1  # version of the format
    kind: str  # one of `records.KINDS`, or "foreign"
    # what its one record packs (rule R8); left out where the records are JSON
    form: HeaderForm | msgspec.UnsetType = msgspec.UNSET
    source: str  # the source's id
    origin: str | None = None  # the origin id; None for foreign peers
    previous: int | None = None  # position before the batch, in bytes; None for foreign peers
    position: int | None = None  # position after the batch, in bytes; None for foreign peers
    records: int  # records after the header
    events: int  # events in them
    size: int = msgspec.field(name="bytes")  # bytes after the header, framing included
    skipped: int = 0  # bytes of the file that the run leaves out
    read: int = 0  # when the run's last byte was read, ms since 1970
    received: int  # when the receiver had it, ms since 1970
    store: str  # id of the store that it was written to
    peer: msgspec.Raw = msgspec.Raw(b"{}")  # who sent it: identity, address, dialect
    attributes: msgspec.Raw = msgspec.Raw(b"{}")  # the source's attributes, as JSON
    mark: msgspec.Raw = msgspec.Raw(b"null")  # what a gap, an end, a piece or a note says

    def encode(self) -> bytes:
        """Return the header record's payload: keys in this order, without white space (rule R4)."""
        return b'{"logdrive":' + _encode(self) + b"}"


class _Envelope(msgspec.Struct):
    logdrive: BatchHeader


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Envelope).decode


def parse_header(payload: bytes) -> BatchHeader:
    """Return the header in *payload*, a record at the place of a header.

    Raises ValueError if it is not a header.
    """
    if not payload.startswith(HEADER_PREFIX):
        raise ValueError("not a batch header")
    try:
        return _decode(payload).logdrive
    except (msgspec.DecodeError, RecursionError) as error:
        raise ValueError(f"a batch header that can't be read: {error}") from error
