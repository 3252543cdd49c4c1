"""Results at the beginning of R3's replies."""

import pytest

from logdrive.wire.iggy.commands import COMMAND_BY_OPERATION, LOGOUT, NON_REPLICATED, REGISTER
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.vsr.headers import Eviction
from logdrive.wire.iggy.vsr.results import (
    frame_failure,
    frame_result,
    is_result_framed,
    unframe_result,
)
from tests.logdrive.wire.iggy.vsr.test_frames import FRAMES, reply_of

SEND = 160


def test_replicated_operations_but_a_send_have_a_result() -> None:
    framed = {one for one in COMMAND_BY_OPERATION if is_result_framed(one)}
    assert framed == set(COMMAND_BY_OPERATION) - {SEND, LOGOUT}
    assert is_result_framed(REGISTER)
    assert not is_result_framed(NON_REPLICATED)


@pytest.mark.parametrize("payload", [b"", b"payload"])
def test_a_result_is_read_as_it_was_written(payload: bytes) -> None:
    assert unframe_result(128, memoryview(frame_result(payload))) == payload
    with pytest.raises(IggyError) as caught:
        unframe_result(128, memoryview(frame_failure(1012)))
    assert caught.value.reason is Reason.STREAM_NAME_EXISTS
    assert caught.value.wire_code == 1012


def test_a_reply_without_a_result_is_left_as_it_is() -> None:
    for operation in (SEND, NON_REPLICATED, LOGOUT):
        assert bytes(unframe_result(operation, memoryview(b"payload"))) == b"payload"
    assert bytes(unframe_result(REGISTER, memoryview(b""))) == b""


@pytest.mark.parametrize(
    "body", [b"", b"\0\0\0", b"\1\0\0\0", b"\2" + bytes(11), b"\1" + bytes(12)]
)
def test_a_result_that_cannot_be_read_is_an_error(body: bytes) -> None:
    with pytest.raises(IggyError) as caught:
        unframe_result(128, memoryview(body))
    assert caught.value.reason is Reason.INVALID_FORMAT


def test_each_recorded_result_is_read() -> None:
    codes = set()
    results = 0
    for label, _, reply in FRAMES:
        answer = None if reply is None else reply_of(reply)
        # one login was answered without a result on purpose: its client refused that
        if answer is None or isinstance(answer, Eviction) or "unframed" in label:
            continue
        try:
            unframe_result(answer.header.operation, answer.body)
            results += is_result_framed(answer.header.operation)
        except IggyError as error:
            codes.add(error.wire_code)
    assert results > 10
    assert codes >= {1012}
