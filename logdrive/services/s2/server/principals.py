"""Who makes a request, and what they may do.

A principal is the holder of an access token that this store issued, a user of the users file, or
anyone, where the face asks for no login.
"""

import base64
import binascii

from logdrive.errors import TransientError
from logdrive.services.auth.permissions import Permission
from logdrive.services.auth.users import UnknownUserError, User, Users
from logdrive.services.s2.server.access_tokens import AccessTokens
from logdrive.services.s2.server.operations import READING, permitted_operations
from logdrive.services.s2.server.state import S2Token
from logdrive.store.streams.names import S2, SYSTEM
from logdrive.wire.s2.errors import authn, permission_denied, unavailable


class Principal:
    """Anyone, where no login is needed: may do everything."""

    token: S2Token | None = None
    """The access token that was shown, if it was issued here."""

    @property
    def prefix(self) -> str:
        """What is put before the names of streams, and taken off again in lists."""
        return ""

    def check(
        self,
        operation: str,
        *,
        basin: str | None = None,
        stream: str | None = None,
        token_id: str | None = None,
    ) -> None:
        """Raise `S2Error`, 403, unless *operation* on what is named is allowed."""

    def check_valid(self) -> None:
        """Raise `S2Error`, 401, once the login is valid no more: sessions ask again and again."""

    def sees_basin(self, basin: str) -> bool:
        """Return whether *basin* is in lists."""
        return True

    def sees_stream(self, basin: str, stream: str) -> bool:
        """Return whether *stream* is in lists."""
        return True

    def sees_token(self, token_id: str) -> bool:
        """Return whether the access token is in lists."""
        return True


class TokenHolder(Principal):
    """The holder of an access token that was issued here."""

    def __init__(self, token: S2Token, tokens: AccessTokens) -> None:
        self.token: S2Token = token
        self._tokens = tokens
        self._operations = permitted_operations(token.scope)
        self._scope = token.scope

    @property
    def prefix(self) -> str:
        """The prefix of the token's streams, if it asks for that."""
        streams = self._scope.streams
        adds = self.token.auto_prefix_streams and streams is not None
        return (streams.prefix or "") if adds and streams is not None else ""

    def check(
        self,
        operation: str,
        *,
        basin: str | None = None,
        stream: str | None = None,
        token_id: str | None = None,
    ) -> None:
        """Raise `S2Error`, 403, unless the token's scope allows it."""
        if operation not in self._operations:
            raise permission_denied(f"the access token does not allow {operation}")
        if basin is not None and not self.sees_basin(basin):
            raise permission_denied(f"the access token does not reach basin {basin!r}")
        if basin is not None and stream is not None and not self.sees_stream(basin, stream):
            raise permission_denied(f"the access token does not reach stream {stream!r}")
        if token_id is not None and not self.sees_token(token_id):
            raise permission_denied(f"the access token does not reach access token {token_id!r}")

    def check_valid(self) -> None:
        """Raise `S2Error`, 401, once the token has expired or was revoked."""
        if not self._tokens.is_valid(self.token):
            raise authn("the access token has expired, or was revoked")

    def sees_basin(self, basin: str) -> bool:
        """Return whether the token reaches *basin*."""
        return self._scope.basins is not None and self._scope.basins.has(basin)

    def sees_stream(self, basin: str, stream: str) -> bool:
        """Return whether the token reaches *stream*."""
        return self._scope.streams is not None and self._scope.streams.has(stream)

    def sees_token(self, token_id: str) -> bool:
        """Return whether the token reaches another one."""
        tokens = self._scope.access_tokens
        return tokens is not None and tokens.has(token_id)


class LoggedInUser(Principal):
    """A user of the users file: basins are scopes there, and streams streams."""

    def __init__(self, user: User) -> None:
        self._user = user

    def check(
        self,
        operation: str,
        *,
        basin: str | None = None,
        stream: str | None = None,
        token_id: str | None = None,
    ) -> None:
        """Raise `S2Error`, 403, unless the user's grants allow it."""
        wanted = Permission.READ if operation in READING else Permission.READ_UPDATE
        if self._permission(operation, basin, stream) < wanted:
            raise permission_denied(f"user {self._user.name!r} may not {operation}")

    def _permission(self, operation: str, basin: str | None, stream: str | None) -> Permission:
        grants = self._user.grants
        if basin is not None and stream is not None:
            return grants.stream_permission(basin, stream)
        if operation in ("list-basins", "list-streams"):
            return Permission.READ  # of a list, only what the user sees
        if basin is not None:
            return grants.scope_permission(basin)
        # the account as a whole, its access tokens too: only with a grant on everything
        return grants.stream_permission(SYSTEM, S2)

    def sees_basin(self, basin: str) -> bool:
        """Return whether the user has a grant on any stream of *basin*."""
        return self._user.grants.may_see_scope(basin)

    def sees_stream(self, basin: str, stream: str) -> bool:
        """Return whether the user may read *stream*."""
        return self._user.grants.stream_permission(basin, stream) >= Permission.READ


class Principals:
    """Finds out who makes a request; without *users* no login is needed."""

    def __init__(self, tokens: AccessTokens, users: Users | None) -> None:
        self._tokens = tokens
        self._users = users
        self._anyone = Principal()

    async def identify(self, authorization: str | None) -> Principal:
        """Return who sent this `authorization` header. Raises `S2Error`, 401."""
        text = _token_text(authorization)
        if text and (token := self._tokens.recognize(text)) is not None:
            return TokenHolder(token, self._tokens)
        if text and self._tokens.was_issued(text):
            raise authn("the access token has expired, or was revoked")
        if self._users is None:
            return self._anyone
        if not text:
            raise authn("an access token is needed, or user:password: authorization: Bearer …")
        try:
            return LoggedInUser(await self._users.authenticate(f"Basic {_as_login(text)}"))
        except UnknownUserError as error:
            raise authn("the access token is not known, and is no user:password either") from error
        except TransientError as error:
            raise unavailable(str(error)) from error


def _token_text(authorization: str | None) -> str:
    if authorization is None:
        return ""
    scheme, _, text = authorization.partition(" ")
    return text.strip() if scheme.lower() in ("bearer", "basic") else ""


def _as_login(text: str) -> str:
    """Return *text*, `user:password` either plain or in base64, in base64."""
    if ":" in text:
        return base64.b64encode(text.encode()).decode()
    try:
        base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return ""
    return text
