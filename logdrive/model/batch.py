"""The header record at the start of each batch (rules R4, R5)."""

from typing import Final

import msgspec

HEADER_PREFIX: Final = b'{"logdrive":{"v":1,'
"""The bytes that every header begins with; other versions also begin with `{"logdrive":{"v":`."""


class BatchHeader(msgspec.Struct, frozen=True, kw_only=True):
    """The header record of a batch: its source, positions, counts, times and attributes.

    Positions are None for foreign peers. *size* (`bytes`) counts the bytes after the header,
    framing included. *read* and *received* are in ms since 1970: when the run's last byte was read,
    and when the receiver had it.
    """

    v: int = 1
    kind: str
    source: str
    origin: str | None = None
    previous: int | None = None
    position: int | None = None
    records: int
    events: int
    size: int = msgspec.field(name="bytes")
    skipped: int = 0
    read: int = 0
    received: int
    store: str
    peer: msgspec.Raw = msgspec.Raw(b"{}")
    attributes: msgspec.Raw = msgspec.Raw(b"{}")
    mark: msgspec.Raw = msgspec.Raw(b"null")

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
