"""Bodies of R3's Register: a login by password or by token. See docs/protocols/iggy.md#r3-login.

Nothing in the frame says which of the two it is: where the body ends does.
"""

import struct
from dataclasses import dataclass
from typing import Final

from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.limits import TEXT_BYTES, TOKEN_BYTES, U8_MAX
from logdrive.wire.iggy.replies import LoggedIn
from logdrive.wire.iggy.requests import IggyLogin, LoginWithToken

CURRENT_PROTOCOL: Final = 11 << 10
"""Version 0.11.0, which a server of ours speaks: major << 20 | minor << 10 | patch."""
OLDEST_PROTOCOL: Final = CURRENT_PROTOCOL >> 10 << 10
"""The oldest version that it accepts: its own with patch 0."""

_U32: Final = struct.Struct("<I")
_REGISTERED: Final = struct.Struct("<IQI")  # user id, session, protocol; then the version


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
    """Return the body of a login. Raises ValueError where a text is too long for its length."""
    login = registration.login
    if isinstance(login, IggyLogin):
        secrets = _short(login.user) + _short(login.password)
    else:
        secrets = _short(login.token)
    context = registration.context.encode()
    return b"".join(
        (
            _U32.pack(registration.protocol),
            _short(registration.sdk),
            _short(registration.sdk_version),
            secrets,
            _U32.pack(len(context)),
            context,
        )
    )


def decode_register(body: bytes | memoryview) -> IggyRegistration:
    """Return the login that *body* is.

    Raises `IggyError`, INVALID_COMMAND, where it is none: a server evicts with MALFORMED_LOGIN.
    """
    reader = _Reader(bytes(body[: TEXT_BYTES + 2 * 1024]))
    if len(body) != reader.size:
        raise _malformed("too long")
    protocol = reader.u32()
    sdk, version = reader.short(), reader.short()
    first = reader.short()
    login: IggyLogin | LoginWithToken
    if reader.ends_with_context():
        if not 1 <= len(first.encode()) <= TOKEN_BYTES:
            raise _malformed("the token's length")
        login = LoginWithToken(first)
    else:
        login = IggyLogin(first, reader.short(), version)
        if not reader.ends_with_context():
            raise _malformed("it does not end with a context")
    return IggyRegistration(protocol, sdk, version, login, reader.context())


def encode_registered(logged_in: LoggedIn) -> bytes:
    """Return what a reply to a login returns, without the result before it.

    LoggedIn's session is not 0. Raises ValueError where the version is too long.
    """
    fields = _REGISTERED.pack(logged_in.user_id, logged_in.session, logged_in.protocol)
    return fields + _short(logged_in.version)


def decode_registered(payload: bytes | memoryview) -> LoggedIn:
    """Return what a reply to a login returns. Raises `IggyError`, INVALID_FORMAT."""
    try:
        user, session, protocol = _REGISTERED.unpack_from(payload)
        reader = _Reader(bytes(payload[_REGISTERED.size :]))
        return LoggedIn(user, session, protocol, reader.short())
    except (struct.error, IggyError):
        raise IggyError(Reason.INVALID_FORMAT, "a reply to a login can't be read") from None


def _malformed(why: str) -> IggyError:
    return IggyError(Reason.INVALID_COMMAND, f"a login that can't be read: {why}")


def _short(text: str) -> bytes:
    data = text.encode()
    if len(data) > U8_MAX:
        raise ValueError(f"a text of {len(data)} bytes, over {U8_MAX}")
    return bytes((len(data),)) + data


class _Reader:
    """Reads a body's fields one after the other. Raises `IggyError` where one is cut off."""

    def __init__(self, data: bytes) -> None:
        self.size = len(data)
        self._data, self._at = data, 0

    def u32(self) -> int:
        return int(_U32.unpack(self._take(_U32.size))[0])

    def short(self) -> str:
        return self._text(self._take(1)[0])

    def context(self) -> str:
        return self._text(self.u32())

    def ends_with_context(self) -> bool:
        """Whether what is left is a length of four bytes and just as many bytes."""
        left = self.size - self._at - _U32.size
        return left >= 0 and _U32.unpack_from(self._data, self._at)[0] == left

    def _text(self, size: int) -> str:
        try:
            return self._take(size).decode()
        except UnicodeDecodeError:
            raise _malformed("a text is not UTF-8") from None

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if end > self.size:
            raise _malformed("it is cut off")
        taken = self._data[self._at : end]
        self._at = end
        return taken
