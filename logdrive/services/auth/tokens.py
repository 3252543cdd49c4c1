"""Delegation tokens: signed by the controller, verified by the segment store.

See docs/protocols/pravega.md#tokens. A token is a JWT, HS512 with a secret that both know. Beside
the usual claims it has one for each resource (a stream, a scope, or everything), whose value is the
permission. It is verified without asking the controller.
"""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import jwt

from logdrive.host.clock import Clock
from logdrive.services.auth.permissions import Permission

_SUBJECT, _AUDIENCE, _ALGORITHM = "segmentstoreresource", "segmentstore", "HS512"
_EVERYTHING: Final = ("*", "prn::*", "prn::/*")
_CACHED_TOKENS: Final = 1024
LEAST_SECRET_BYTES: Final = 64
"""A key is at least as long as the hash (RFC 7518, section 3.2)."""


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """A token's permissions by resource. *expires_ms* is in ms since 1970; None: it never does."""

    permissions: Mapping[str, Permission]
    expires_ms: int | None

    def stream_permission(self, scope: str, stream: str) -> Permission:
        """Return the permission on one stream."""
        # both notations of Pravega's: resource names ("prn::"), and the older plain ones
        names = (
            f"prn::/scope:{scope}/stream:{stream}",
            f"{scope}/{stream}",
            f"prn::/scope:{scope}/*",
            f"{scope}/*",
            *_EVERYTHING,
        )
        return max(
            (self.permissions.get(name, Permission.NONE) for name in names), default=Permission.NONE
        )


class TokenSigner:
    """Signs tokens that are valid for *lasting_ms*, and reads those signed with the same secret.

    The tokens read last are cached, since each comes with many requests.
    """

    def __init__(self, secret: bytes, clock: Clock, lasting_ms: int) -> None:
        self._secret = secret
        self._clock = clock
        self._lasting_ms = lasting_ms
        # by token, in the order in which they were first read
        self._cached: OrderedDict[str, TokenGrant] = OrderedDict()

    def sign_token(self, scope: str, permissions: Mapping[str, Permission]) -> str:
        """Return a token with *permissions*, by the names of streams of *scope*."""
        now = self._clock.now_ms()
        claims = {
            "sub": _SUBJECT,
            "aud": _AUDIENCE,
            "iat": now // 1000,
            "exp": -(-(now + self._lasting_ms) // 1000),  # rounded up
        } | {
            f"prn::/scope:{scope}/stream:{stream}": permission.name
            for stream, permission in permissions.items()
            if permission
        }
        return jwt.encode(claims, self._secret, algorithm=_ALGORITHM)

    def read_token(self, token: str) -> TokenGrant | None:
        """Return what *token* grants, even if it has expired.

        None: it was not signed with our secret, or is not for a segment store.
        """
        grant = self._cached.get(token)
        if grant is None:
            try:
                claims = jwt.decode(
                    token,
                    self._secret,
                    algorithms=[_ALGORITHM],
                    audience=_AUDIENCE,
                    # the caller compares the time with its own clock
                    options={"verify_exp": False, "verify_iat": False, "verify_nbf": False},
                )
                grant = _grant(claims)
            # its JSON may hold anything
            except (jwt.InvalidTokenError, ValueError, TypeError, OverflowError, RecursionError):
                return None
            self._cached[token] = grant
            if len(self._cached) > _CACHED_TOKENS:
                self._cached.popitem(last=False)
        return grant


def _grant(claims: Mapping[str, Any]) -> TokenGrant:
    if claims.get("sub", _SUBJECT) != _SUBJECT:
        raise ValueError("not for a segment store")
    expires = claims.get("exp")
    known = {permission.name: permission for permission in Permission}
    permissions = {
        name: known[value]
        for name, value in claims.items()
        if isinstance(value, str) and value in known
    }
    return TokenGrant(permissions, None if expires is None else int(float(expires) * 1000))
