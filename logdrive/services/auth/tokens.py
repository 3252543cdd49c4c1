"""Delegation tokens: what the controller signs for one stream, and a segments' port looks at
(specification, section 6).

A token is a JWT, HS512 over a secret that both know. Beside the usual claims it has one for each
resource, a stream or everything, whose value is the permission. Nothing is asked of anybody to
check one.
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
_REMEMBERED: Final = 1024
LEAST_SECRET_BYTES: Final = 64
"""As long as the hash: what RFC 7518 asks for."""


@dataclass(frozen=True, slots=True)
class TokenGrant:
    """What a token says. *ends* is in ms since 1970, None for one that never does."""

    permissions: Mapping[str, Permission]
    expires_ms: int | None

    def stream_permission(self, scope: str, stream: str) -> Permission:
        """Return what the token lets its bearer do with a stream."""
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
    """Signs and reads tokens.

    Of those that it has read it remembers the last, since each comes with many requests.
    """

    def __init__(self, secret: bytes, clock: Clock, lasting_ms: int) -> None:
        self._secret, self._clock, self._lasting_ms = secret, clock, lasting_ms
        self._read: OrderedDict[str, TokenGrant] = OrderedDict()

    def sign_token(self, scope: str, permissions: Mapping[str, Permission]) -> str:
        """Return a token for the streams of *scope* that *permissions* names."""
        now = self._clock.now_ms()
        claims = {
            "sub": _SUBJECT,
            "aud": _AUDIENCE,
            "iat": now // 1000,
            "exp": -(-(now + self._lasting_ms) // 1000),
        } | {
            f"prn::/scope:{scope}/stream:{stream}": permission.name
            for stream, permission in permissions.items()
            if permission
        }
        return jwt.encode(claims, self._secret, algorithm=_ALGORITHM)

    def read_token(self, token: str) -> TokenGrant | None:
        """Return what *token* says, also one that has ended; None where it was not signed with our
        secret, or is not for us.
        """
        found = self._read.get(token)
        if found is None:
            try:
                claims = jwt.decode(
                    token,
                    self._secret,
                    algorithms=[_ALGORITHM],
                    audience=_AUDIENCE,
                    # time is the clock's to tell
                    options={"verify_exp": False, "verify_iat": False, "verify_nbf": False},
                )
                found = _grant(claims)
            # whatever may stand in its JSON
            except (jwt.InvalidTokenError, ValueError, TypeError, OverflowError, RecursionError):
                return None
            self._read[token] = found
            if len(self._read) > _REMEMBERED:
                self._read.popitem(last=False)
        return found


def _grant(claims: Mapping[str, Any]) -> TokenGrant:
    if claims.get("sub", _SUBJECT) != _SUBJECT:
        raise ValueError("not for a segment store")
    ends = claims.get("exp")
    known = {permission.name: permission for permission in Permission}
    permissions = {
        name: known[value]
        for name, value in claims.items()
        if isinstance(value, str) and value in known
    }
    return TokenGrant(permissions, None if ends is None else int(float(ends) * 1000))
