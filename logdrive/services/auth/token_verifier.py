"""Verification of the tokens that requests bring to the segment store's port.

Two kinds are valid: a token signed by the controller, and the *local token* of this process. The
latter is in `endpoint.json`, readable only by the store's owner, for programs on this host that may
read the store's directory anyway. It is valid until the process ends.
"""

import hmac
from collections.abc import Iterable
from random import Random
from typing import TYPE_CHECKING, Final

from logdrive.errors import LogdriveError
from logdrive.host.clock import Clock
from logdrive.services.auth.permissions import Permission
from logdrive.wire.pravega.names import scope_and_stream

if TYPE_CHECKING:
    from logdrive.services.auth.tokens import TokenSigner


_LOCAL_TOKEN_BYTES: Final = 32


class TokenRefusedError(LogdriveError):
    """The token does not allow the request. *expired*: it did until it expired."""

    def __init__(self, reason: str, *, expired: bool = False) -> None:
        super().__init__(reason)
        self.expired = expired


class TokenVerifier:
    """Accepts *local_token* and, given a *signer*, the tokens that it signed."""

    def __init__(self, local_token: str, clock: Clock, signer: "TokenSigner | None" = None) -> None:
        self.local_token = local_token
        self.clock = clock
        self._signer = signer

    def verify_token(self, token: str, segments: Iterable[str], wanted: Permission) -> int | None:
        """Check that *token* grants *wanted* on each of *segments* (full names).

        Returns when it expires, in ms since 1970; None for one that never does. Raises
        `TokenRefusedError`.
        """
        # the local token allows everything: its holder may read the store's directory anyway
        if hmac.compare_digest(token.encode(errors="replace"), self.local_token.encode()):
            return None

        grant = self._signer.read_token(token) if self._signer is not None and token else None
        if grant is None:
            raise TokenRefusedError(
                "a token of the controller is needed"
                if not token
                else "the token was not signed by this controller"
            )
        if grant.expires_ms is not None and grant.expires_ms <= self.clock.now_ms():
            raise TokenRefusedError("the token has expired", expired=True)

        for segment in segments:
            if grant.stream_permission(*scope_and_stream(segment)) < wanted:
                raise TokenRefusedError(f"the token does not allow {wanted.name} on {segment}")
        return grant.expires_ms


def new_local_token(random: Random) -> str:
    """Return a new local token of 256 random bits."""
    return random.randbytes(_LOCAL_TOKEN_BYTES).hex()
