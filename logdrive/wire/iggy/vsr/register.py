"""Bodies of R3's Register: a login by password or by token. See docs/protocols/iggy.md#r3-login.

Nothing in the frame says which of the two it is: where the body ends does.
"""

from dataclasses import dataclass
from typing import Final

from logdrive.model.framing import Part
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.limits import TOKEN_BYTES
from logdrive.wire.iggy.payloads.cursor import PayloadReader, PayloadWriter
from logdrive.wire.iggy.payloads.fields import TEXT8, TEXT32
from logdrive.wire.iggy.replies import LoggedIn
from logdrive.wire.iggy.replies_codec import decode_reply
from logdrive.wire.iggy.requests import IggyLogin, LoginWithToken
from logdrive.wire.iggy.revision import Revision

CURRENT_PROTOCOL: Final = 11 << 10
"""Version 0.11.0, which a server of ours speaks: major << 20 | minor << 10 | patch."""
OLDEST_PROTOCOL: Final = CURRENT_PROTOCOL >> 10 << 10
"""The oldest version that it accepts: its own with patch 0."""

_LENGTH_BYTES: Final = 4


@dataclass(frozen=True, slots=True)
class IggyRegistration:
    """A *login*, and what tells the client's library: its protocol version, name and version."""

    protocol: int
    sdk: str
    sdk_version: str
    login: IggyLogin | LoginWithToken
    context: str = ""


def accepts_protocol(protocol: int) -> bool:
    """Return whether a client with this version may log in.

    Others are evicted: INCOMPATIBLE_PROTOCOL with CURRENT_PROTOCOL and OLDEST_PROTOCOL.
    """
    return protocol >= OLDEST_PROTOCOL and protocol >> 10 <= CURRENT_PROTOCOL >> 10


def encode_register(registration: IggyRegistration) -> bytes:
    """Return the body of a login. Raises ValueError where a text is too long for its field."""
    login = registration.login
    fields = PayloadWriter(Revision.R3)
    fields.u32(registration.protocol)
    TEXT8.write(registration.sdk, fields)
    TEXT8.write(registration.sdk_version, fields)
    if isinstance(login, IggyLogin):
        TEXT8.write(login.user, fields)
        TEXT8.write(login.password, fields)
    else:
        TEXT8.write(login.token, fields)
    TEXT32.write(registration.context, fields)
    return fields.joined()


def decode_register(body: Part) -> IggyRegistration:
    """Return the login that *body* is; what the client's library tells is its version, too.

    Raises `IggyError`, INVALID_COMMAND, where it is none: a server evicts with MALFORMED_LOGIN.
    """
    body = memoryview(body)
    fields = PayloadReader(Revision.R3, body)
    try:
        protocol, sdk, version = fields.u32(), TEXT8.read(fields), TEXT8.read(fields)
        first = TEXT8.read(fields)
        if _is_context(body[fields.at :]):
            return IggyRegistration(
                protocol, sdk, version, _token_login(first), TEXT32.read(fields)
            )
        password = TEXT8.read(fields)
        if not _is_context(body[fields.at :]):
            raise ValueError("it does not end with a context")
        context = TEXT32.read(fields)
    except ValueError as error:
        reason = f"a login that can't be read: {error}"
        raise IggyError(Reason.INVALID_COMMAND, reason) from None
    return IggyRegistration(
        protocol, sdk, version, IggyLogin(first, password, version, context), context
    )


def _is_context(rest: Part) -> bool:
    """Return whether *rest* is a text and its length of four bytes, and nothing more."""
    length = int.from_bytes(rest[:_LENGTH_BYTES], "little")
    return len(rest) >= _LENGTH_BYTES and len(rest) - _LENGTH_BYTES == length


def _token_login(token: str) -> LoginWithToken:
    if not 1 <= len(token.encode()) <= TOKEN_BYTES:
        raise ValueError(f"a token of {len(token.encode())} bytes")
    return LoginWithToken(token)


def decode_registered(payload: Part) -> LoggedIn:
    """Return what a reply to a login tells. Raises `IggyError`, INVALID_FORMAT."""
    return decode_reply(Revision.R3, LoginWithToken(""), payload)
