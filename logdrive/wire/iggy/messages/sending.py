"""Messages that our client sends."""

from collections.abc import Iterable
from typing import Final

from logdrive.kernel.iggy_loops import encode_messages
from logdrive.model.framing import Part
from logdrive.wire.iggy.messages.envelope import StoredMessage, encode_event
from logdrive.wire.iggy.messages.layouts import layout_of
from logdrive.wire.iggy.revision import Revision

_NO_LIMIT: Final = 2**62


def encode_sent(
    revision: Revision, messages: Iterable[StoredMessage], *, origin_us: int = 0
) -> bytes:
    """Return *messages* as `SendMessages.batch`; how many they are is its count.

    *origin_us* is the origin of messages without one; R0 to R1 send none. Raises ValueError as
    `encode_sent_events` does.
    """
    events = b"".join([encode_event(message) for message in messages])
    return encode_sent_events(revision, events, origin_us=origin_us)[0]


def encode_sent_events(
    revision: Revision, events: Part, *, origin_us: int = 0
) -> tuple[bytes, int]:
    """Return the messages that *events* store as `SendMessages.batch`, and its count.

    The fast way for many plain messages: *events* are Pravega events back to back, each one's
    payload a message's, or an envelope where the message has more (`encode_event`). Raises
    ValueError if they are no events, or origins of R3 lie more than an hour apart.
    """
    layout = layout_of(revision)
    encoded, end, count, why = encode_messages(
        layout, True, events, 0, 0, 0, origin_us, 0, 0, _NO_LIMIT, _NO_LIMIT
    )
    if end != len(events):
        raise ValueError(f"what follows message {count} is none, or too far apart (reason {why})")
    return encoded, count
