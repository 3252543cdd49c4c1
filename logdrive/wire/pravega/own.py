"""Messages of our own store, which no Pravega knows (docs/protocols/pravega.md#our-own-messages).

A peer that does not know a code closes the connection: send them only to a service that has the
attribute `LOCATES_APPENDS`.
"""

from logdrive.wire.pravega.fields import I32, I64, BlockParts, I64s, Text, Uuid
from logdrive.wire.pravega.layout import Message, message


@message(30_001)
class LocateAppends(Message):
    """Requests where the appends that hold [*start*, *end*) begin, and where the log has them.

    With *head_bytes* the answer has so many bytes of each, too. *host* is the client's
    `StoreFiles.host`, "" if it wants to read no files.
    """

    request_id: I64
    segment: Text
    start: I64
    end: I64
    head_bytes: I32
    host: Text = ""
    token: Text = ""


@message(30_002)
class AppendsLocated(Message):
    """Answers LocateAppends: with the first so many of the appends, in order, at least one."""

    request_id: I64
    segment: Text
    offsets: I64s
    """Where each append begins in the segment, and where the last one ends."""
    places: I64s
    """Where the data of each begins in the log: one less than *offsets*."""
    heads: BlockParts
    """Unchecked bytes of each, one after the other: *head_bytes*, or fewer where its data ends; of
    the first append from *start* on.
    """
    store: Uuid
    """The id of the store, whose log it is."""
    directory: Text = ""
    """The store's directory, if the client is on its host, else ""."""
    identity: Text = ""
    """`StoreFiles.identity` of the directory."""
