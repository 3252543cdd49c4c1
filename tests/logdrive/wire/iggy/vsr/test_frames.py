"""R3's frames: recorded ones both ways, any split of the stream, limits from the head."""

import json
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.errors import ProtocolError
from logdrive.wire.iggy.commands import COMMAND_BY_CODE, NON_REPLICATED, REGISTER
from logdrive.wire.iggy.limits import COMMAND_BYTES
from logdrive.wire.iggy.vsr.frames import (
    VsrReplies,
    VsrReply,
    VsrRequest,
    VsrRequests,
    encode_vsr_reply,
    encode_vsr_request,
    request_checksum,
)
from logdrive.wire.iggy.vsr.headers import (
    HEAD_BYTES,
    Eviction,
    EvictionReason,
    ReplyHeader,
    RequestHeader,
)
from logdrive.wire.iggy.vsr.results import is_result_framed
from tests.logdrive.wire.iggy.exchanges import FOLDER

SEND = 160
CLIENT = bytes(range(1, 17))


def recorded() -> Iterator[tuple[str, bytes, bytes | None]]:
    for file in sorted(FOLDER.glob("*.json")):
        content = json.loads(file.read_text())
        if content["revision"] == "R3":
            for number, one in enumerate(content["exchanges"]):
                reply = one["reply"]
                yield (
                    f"{file.stem}-{number}-{one['name'].replace(' ', '-')}",
                    bytes.fromhex(one["request"]),
                    None if reply is None else bytes.fromhex(reply),
                )


FRAMES = list(recorded())


def request_of(frame: bytes) -> VsrRequest:
    requests = VsrRequests()
    requests.receive(frame)
    request = requests.next_request()
    assert request is not None
    assert requests.buffered == 0
    return request


def reply_of(frame: bytes) -> VsrReply | Eviction:
    replies = VsrReplies()
    replies.receive(frame)
    reply = replies.next_reply()
    assert reply is not None
    return reply


def without_checksum(frame: bytes, at: int = 144) -> bytes:
    """Return *frame* without the checksum of the request, which may be 0."""
    return frame[:at] + frame[at + 16 :]


@pytest.mark.parametrize(("label", "request_", "reply"), FRAMES, ids=[one[0] for one in FRAMES])
def test_a_recorded_frame_is_read_and_written_as_it_was(
    label: str, request_: bytes, reply: bytes | None
) -> None:
    request = request_of(request_)
    header = request.header
    code = header.code or next(
        one.code for one in COMMAND_BY_CODE.values() if one.operation == header.operation
    )
    assert header.encode() + request.body == request_
    written = encode_vsr_request(
        code, request.body, client=header.client, number=header.number, session=header.session
    )
    assert request_of(written).header.checksum == header.checksum or not any(header.checksum)
    assert without_checksum(written) == without_checksum(request_)
    if reply is None:
        return
    answer = reply_of(reply)
    if isinstance(answer, Eviction):
        assert answer.client == header.client
        # the real server fills in what a client does not look at
        assert answer.encode() == reply or label.startswith("server")
        return
    assert answer.body == reply[HEAD_BYTES:]
    # a real server answers the creation of a topic with an operation of its own
    assert answer.header.operation in {header.operation, 64}
    assert is_result_framed(answer.header.operation) == is_result_framed(header.operation)
    if label.startswith("client"):
        replied = encode_vsr_reply(header, answer.body, status=answer.header.status)
        assert without_checksum(replied, at=128) == without_checksum(reply, at=128)


def test_evictions_and_refusals_were_recorded() -> None:
    answers = [reply_of(reply) for _, _, reply in FRAMES if reply is not None]
    reasons = {answer.reason for answer in answers if isinstance(answer, Eviction)}
    assert reasons >= {EvictionReason.BAD_CREDENTIALS, EvictionReason.INCOMPATIBLE_PROTOCOL}
    assert any(isinstance(answer, VsrReply) and answer.header.status for answer in answers)


sixteen = st.binary(min_size=16, max_size=16)
u64 = st.integers(0, 2**64 - 1)
requests_ = st.builds(
    lambda header, body: (header, body),
    st.builds(
        RequestHeader,
        client=sixteen,
        operation=st.integers(0, 255),
        number=u64,
        session=u64,
        code=st.integers(0, 2**32 - 1),
        checksum=sixteen,
    ),
    st.binary(max_size=40),
)
replies_ = st.builds(
    lambda header, body: (header, body),
    st.builds(
        ReplyHeader,
        client=sixteen,
        operation=st.integers(0, 255),
        number=u64,
        status=st.integers(0, 2**32 - 1),
        checksum=sixteen,
    ),
    st.binary(max_size=40),
)
evictions = st.builds(
    Eviction, sixteen, st.integers(0, 255), st.integers(0, 2**32 - 1), st.integers(0, 2**32 - 1)
)


def sized(header: RequestHeader, body: bytes) -> RequestHeader:
    return RequestHeader(
        header.client,
        header.operation,
        len(body),
        header.number,
        header.session,
        header.code,
        header.checksum,
    )


@given(st.lists(requests_, max_size=4), st.integers(1, 700))
def test_requests_are_the_same_for_any_split(
    sent: list[tuple[RequestHeader, bytes]], step: int
) -> None:
    headers = [(sized(header, body), body) for header, body in sent]
    stream = b"".join(header.encode() + body for header, body in headers)
    requests, found = VsrRequests(), []
    for at in range(0, len(stream), step):
        requests.receive(stream[at : at + step])
        while (request := requests.next_request()) is not None:
            found.append((request.header, bytes(request.body)))
    assert found == headers
    assert requests.buffered == 0
    assert requests.expected is None


@given(st.lists(replies_ | evictions, max_size=4), st.integers(1, 700))
def test_replies_are_the_same_for_any_split(
    sent: list[tuple[ReplyHeader, bytes] | Eviction], step: int
) -> None:
    stream = b""
    expected: list[tuple[ReplyHeader, bytes] | Eviction] = []
    for one in sent:
        if isinstance(one, Eviction):
            stream += one.encode()
            expected.append(one)
        else:
            header, body = one
            header = ReplyHeader(
                header.client,
                header.operation,
                len(body),
                header.number,
                header.status,
                header.checksum,
            )
            stream += header.encode() + body
            expected.append((header, body))
    replies, found = VsrReplies(), []
    for at in range(0, len(stream), step):
        replies.receive(stream[at : at + step])
        while (reply := replies.next_reply()) is not None:
            found.append(
                reply if isinstance(reply, Eviction) else (reply.header, bytes(reply.body))
            )
    assert found == expected


def test_the_size_of_a_body_is_refused_from_the_head() -> None:
    for operation, most in ((NON_REPLICATED, COMMAND_BYTES), (SEND, COMMAND_BYTES + 9)):
        requests = VsrRequests(send_bytes=COMMAND_BYTES + 9)
        requests.receive(RequestHeader(CLIENT, operation, size=most).encode())
        assert requests.next_request() is None
        assert requests.expected is not None
        assert requests.expected.size == most
        requests = VsrRequests(send_bytes=COMMAND_BYTES + 9)
        requests.receive(RequestHeader(CLIENT, operation, size=most + 1).encode())
        with pytest.raises(ProtocolError, match="may have"):
            requests.next_request()
    replies = VsrReplies(limit_bytes=9)
    replies.receive(ReplyHeader(CLIENT, 2, size=10).encode())
    with pytest.raises(ProtocolError, match="may have 9"):
        replies.next_reply()


@pytest.mark.parametrize("size", [0, 1, 255])
def test_a_size_without_the_head_is_refused(size: int) -> None:
    head = bytearray(RequestHeader(CLIENT, SEND).encode())
    head[48:52] = size.to_bytes(4, "little")
    requests = VsrRequests()
    requests.receive(bytes(head))
    with pytest.raises(ProtocolError, match="at stream offset 0"):
        requests.next_request()
    head[60] = 8
    replies = VsrReplies()
    replies.receive(bytes(head))
    with pytest.raises(ProtocolError):
        replies.next_reply()


def test_frames_of_the_other_side_are_refused() -> None:
    request, reply = RequestHeader(CLIENT, 2).encode(), ReplyHeader(CLIENT, 2).encode()
    requests = VsrRequests()
    requests.receive(request + reply)
    assert requests.next_request() is not None
    with pytest.raises(ProtocolError, match="instead of a request at stream offset 256"):
        requests.next_request()
    replies = VsrReplies()
    replies.receive(request)
    with pytest.raises(ProtocolError, match="instead of a reply"):
        replies.next_reply()


@given(st.binary(max_size=600))
def test_any_bytes_are_frames_or_a_protocol_error(data: bytes) -> None:
    for reader in (VsrRequests(), VsrReplies()):
        reader.receive(data)
        try:
            if isinstance(reader, VsrRequests):
                while reader.next_request() is not None:
                    pass
            else:
                while reader.next_reply() is not None:
                    pass
        except ProtocolError:
            pass


def test_only_metadata_is_sent_with_a_checksum() -> None:
    def checksum(code: int) -> bytes:
        return request_of(encode_vsr_request(code, b"body", client=CLIENT)).header.checksum

    assert checksum(202) == checksum(38) == checksum(39) == request_checksum(b"body")
    for code in (1, 100, 101, 121, 122, 9999):
        assert checksum(code) == bytes(16)


def test_a_login_is_a_register_and_an_unknown_code_is_sent_as_it_is() -> None:
    header = request_of(encode_vsr_request(38, b"", client=CLIENT)).header
    assert (header.operation, header.code) == (REGISTER, 0)
    header = request_of(encode_vsr_request(9999, b"", client=CLIENT, number=3, session=4)).header
    assert header == RequestHeader(CLIENT, NON_REPLICATED, 0, 3, 4, 9999)


def test_a_request_begins_with_four_zero_bytes() -> None:
    assert RequestHeader(CLIENT, 2).encode()[:16] == bytes(16)
