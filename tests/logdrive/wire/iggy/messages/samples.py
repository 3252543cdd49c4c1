"""Messages for tests, drawn and recorded."""

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from logdrive.wire.iggy.messages.envelope import StoredMessage, encode_event
from logdrive.wire.iggy.messages.headers import HeaderKind, TypedField, encode_headers, header
from logdrive.wire.iggy.replies import Polled
from logdrive.wire.iggy.replies_codec import decode_reply
from logdrive.wire.iggy.requests import PollMessages, SendMessages
from logdrive.wire.iggy.requests_codec import decode_request
from logdrive.wire.iggy.revision import Revision
from tests.logdrive.wire.iggy.exchanges import exchanges

EXECUTED = [Revision.R0, Revision.R1, Revision.R2A, Revision.R2C, Revision.R3]
"""One revision of each layout, and R0, which has errors of its own."""
SOURCE = encode_headers([header("source", "agent"), header("n", -2, HeaderKind.INT32)])

payloads = st.one_of(
    st.binary(min_size=1, max_size=20),
    st.sampled_from([b"\xff", b"\xffIG\x01", b"\xffIG\x01" + bytes(28), b"x" * 500]),
)
header_blocks = st.lists(
    st.builds(
        header,
        st.text(min_size=1, max_size=9),
        st.one_of(
            st.binary(min_size=1, max_size=9), st.booleans(), st.integers(-(2**63), 2**63 - 1)
        ),
    ),
    max_size=3,
    unique_by=lambda entry: entry.key,
).map(encode_headers)
messages = st.builds(
    StoredMessage,
    payloads,
    header_blocks,
    st.sampled_from([0, 0, 1, 2**64, 2**128 - 1]),
    st.sampled_from([0, 5, 4_000_000_000]),
)
batches = st.lists(messages, min_size=1, max_size=6)


def events_of(*stored: StoredMessage) -> bytes:
    return b"".join(map(encode_event, stored))


def numeric_key(number: int) -> bytes:
    """Return a header whose key is no text; what is before R2C has no such keys."""
    key, value = TypedField.of(number, HeaderKind.UINT32), TypedField.of("by number")
    return b"".join(
        bytes((kind,)) + len(data).to_bytes(4, "little") + data for kind, data in (key, value)
    )


@dataclass(frozen=True)
class RecordedSend:
    label: str
    revision: Revision
    request: SendMessages
    taken: bool


def recorded_sends() -> Iterator[RecordedSend]:
    """Yield the sends of tests/vectors/iggy that can be read; *taken*: a server took them."""
    for one in exchanges():
        if one.code == 101 and one.request:
            try:
                request = decode_request(one.revision, one.code, one.request)
            except Exception:
                continue
            assert isinstance(request, SendMessages)
            yield RecordedSend(one.label, one.revision, request, one.answered)


def recorded_polls() -> Iterator[tuple[str, Revision, Polled]]:
    for one in exchanges():
        if one.code == 100 and one.answered:
            request = decode_request(one.revision, one.code, one.request)
            assert isinstance(request, PollMessages)
            assert one.reply is not None
            yield one.label, one.revision, decode_reply(one.revision, request, one.reply)
