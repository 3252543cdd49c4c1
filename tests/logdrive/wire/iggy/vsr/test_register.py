"""R3's logins, by password and by token, are told apart; what is neither is refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.replies import LoggedIn
from logdrive.wire.iggy.replies_codec import encode_reply
from logdrive.wire.iggy.requests import IggyLogin, LoginWithToken
from logdrive.wire.iggy.revision import Revision
from logdrive.wire.iggy.vsr.register import (
    CURRENT_PROTOCOL,
    IggyRegistration,
    accepts_protocol,
    decode_register,
    decode_registered,
    encode_register,
)
from tests.logdrive.wire.iggy.vsr.test_frames import FRAMES, request_of

LOGINS = [
    (label, bytes(request_of(request).body))
    for label, request, _ in FRAMES
    if request_of(request).header.operation == 1
]
names = st.text(st.characters(min_codepoint=32, max_codepoint=300), max_size=20)
passwords = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=3, max_size=100)
tokens = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=100)


@pytest.mark.parametrize(("label", "body"), LOGINS, ids=[one[0] for one in LOGINS])
def test_a_recorded_login_is_read_and_written_as_it_was(label: str, body: bytes) -> None:
    registration = decode_register(body)
    assert encode_register(registration) == body
    assert registration.protocol == CURRENT_PROTOCOL
    if "client" in label:
        assert (registration.sdk, registration.sdk_version) == ("rust-sdk", "0.11.0")


def test_both_kinds_of_login_were_recorded() -> None:
    assert {type(decode_register(body).login) for _, body in LOGINS} == {IggyLogin, LoginWithToken}


@given(names, names, names, passwords, names)
def test_a_login_by_password_is_no_login_by_token(
    sdk: str, version: str, user: str, password: str, context: str
) -> None:
    login = IggyLogin(user, password, version, context)
    registration = IggyRegistration(5, sdk, version, login, context)
    assert decode_register(encode_register(registration)) == registration


@given(names, names, tokens, names)
def test_a_login_by_token_is_none_by_password(
    sdk: str, version: str, token: str, context: str
) -> None:
    registration = IggyRegistration(5, sdk, version, LoginWithToken(token), context)
    assert decode_register(memoryview(encode_register(registration))) == registration


def test_a_login_that_is_cut_off_or_too_long_is_refused() -> None:
    for login in (IggyLogin("user", "password", "1", ""), LoginWithToken("token")):
        body = encode_register(IggyRegistration(5, "sdk", "1", login, "context"))
        for end in range(len(body)):
            with pytest.raises(IggyError) as caught:
                decode_register(body[:end])
            assert caught.value.reason is Reason.INVALID_COMMAND
        with pytest.raises(IggyError):
            decode_register(body + b"x")
    with pytest.raises(IggyError):
        decode_register(encode_register(IggyRegistration(5, "", "", LoginWithToken("x" * 101))))
    with pytest.raises(IggyError):
        decode_register(encode_register(IggyRegistration(5, "", "", LoginWithToken(""))))
    with pytest.raises(ValueError, match="256"):
        encode_register(IggyRegistration(5, "x" * 256, "", LoginWithToken("x")))


@given(st.binary(max_size=60))
def test_any_bytes_are_a_login_or_an_error(data: bytes) -> None:
    try:
        registration = decode_register(data)
    except IggyError:
        return
    assert encode_register(registration) == data


def test_a_reply_to_a_login_tells_the_session() -> None:
    told = LoggedIn(7, 2**40, CURRENT_PROTOCOL, "0.9.0")
    payload = encode_reply(Revision.R3, LoginWithToken("x"), told)
    assert decode_registered(payload) == told
    with pytest.raises(IggyError):
        decode_registered(payload[:-1])


def test_versions_of_the_protocol_that_are_accepted() -> None:
    assert accepts_protocol(CURRENT_PROTOCOL)
    assert accepts_protocol(CURRENT_PROTOCOL + 1)  # a patch
    assert not accepts_protocol(CURRENT_PROTOCOL - 1)
    assert not accepts_protocol(CURRENT_PROTOCOL + (1 << 10))
    assert not accepts_protocol(1 << 20)
