"""Names, identifiers and ids in requests, and what a revision makes of them."""

import pytest

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.identifiers import ByKey
from logdrive.wire.iggy.requests_codec import decode_request, encode_request
from logdrive.wire.iggy.revision import Revision

R0, R1, R2C = Revision.R0, Revision.R1, Revision.R2C


def created(revision: Revision, name: str) -> requests.IggyCreateStream:
    encoded = name.encode()
    number = b"\1\0\0\0" if revision <= Revision.R2A else b""
    request = decode_request(revision, 202, number + bytes([len(encoded)]) + encoded)
    assert isinstance(request, requests.IggyCreateStream)
    return request


@pytest.mark.parametrize(
    ("given_name", "kept"),
    [("Two  Words", "two.words"), ("My Logs", "my.logs"), ("a-b_c.9", "a-b_c.9"), ("Ä", "ä")],
)
def test_r0_keeps_names_in_lower_case_without_spaces_and_later_ones_as_given(
    given_name: str, kept: str
) -> None:
    assert created(R0, given_name).name == kept
    for revision in (R1, R2C, Revision.R3):
        assert created(revision, given_name).name == given_name


@pytest.mark.parametrize("name", ["a/b", "a:b", "\0"])
def test_r0_refuses_other_signs_in_names(name: str) -> None:
    with pytest.raises(IggyError) as caught:
        created(R0, name)
    assert caught.value.reason is Reason.INVALID_STREAM_NAME
    assert created(R2C, name).name == name


@pytest.mark.parametrize("revision", list(Revision))
def test_an_empty_name_has_a_reason_of_its_own(revision: Revision) -> None:
    with pytest.raises(IggyError) as caught:
        created(revision, "")
    assert caught.value.reason is Reason.INVALID_STREAM_NAME


@pytest.mark.parametrize(
    "identifier",
    [
        "",
        "01",
        "0104",
        "010301000000",
        "0105 0100000000",
        "0200",
        "0201ff",
        "030161",
        "0003616263",
    ],
)
def test_what_is_no_identifier_is_refused(identifier: str) -> None:
    with pytest.raises(IggyError) as caught:
        decode_request(R2C, 200, bytes.fromhex(identifier))
    assert caught.value.reason is Reason.INVALID_COMMAND


def test_the_number_0_is_an_identifier_of_something_that_may_be_missing() -> None:
    payload = bytes.fromhex("010400000000")
    for revision in (R0, R1, R2C):
        assert decode_request(revision, 200, payload) == requests.GetStream(0)


def test_a_name_or_a_key_that_does_not_fit_is_not_sent() -> None:
    for name in ("", "x" * 256):
        with pytest.raises(ValueError, match="1 to 255"):
            encode_request(R2C, requests.GetStream(name))
    for key in (b"", bytes(256)):
        with pytest.raises(ValueError, match="1 to 255"):
            encode_request(R2C, requests.SendMessages(1, 1, ByKey(key), b"", 0))
    with pytest.raises(ValueError, match="4 bytes"):
        encode_request(R2C, requests.GetStream(2**32))


def test_a_send_whose_head_ends_elsewhere_is_refused() -> None:
    payload = bytearray(encode_request(R2C, requests.SendMessages(1, 1, ByKey(b"k"), b"x", 1))[1])
    payload[0] += 1
    with pytest.raises(IggyError, match="before the messages"):
        decode_request(R2C, 101, bytes(payload))


def test_a_body_of_r1_is_none_of_r2c() -> None:
    send = requests.SendMessages("logs", "app", ByKey(b"k"), bytes(25))
    with pytest.raises(IggyError):
        decode_request(R2C, 101, encode_request(R1, send)[1])
