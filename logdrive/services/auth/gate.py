"""What a segments' port asks of whoever sends a request.

Either a token of the controller, or the pass that this process made for the programs on this host
which may read the store's directory anyway: it stands in `endpoint.json`, for the store's owner
only, and ends with the process.
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


_PASS_BYTES: Final = 32


class TokenRefusedError(LogdriveError):
    """A token does not allow what is asked; *ended*: it did once."""

    def __init__(self, reason: str, *, ended: bool = False) -> None:
        super().__init__(reason)
        self.ended = ended


class TokenVerifier:
    """Lets through who has a token of *tokens*, or *own_pass*."""

    def __init__(self, own_pass: str, clock: Clock, tokens: "TokenSigner | None" = None) -> None:
        self.own_pass, self.clock = own_pass, clock
        self._tokens = tokens

    def admit(self, token: str, segments: Iterable[str], wanted: Permission) -> int | None:
        """Return when *token*, which allows *wanted* on all *segments*, ends, in ms since 1970.

        Raises `TokenRefusedError`.
        """
        if hmac.compare_digest(token.encode(errors="replace"), self.own_pass.encode()):
            return None
        grant = self._tokens.read(token) if self._tokens is not None and token else None
        if grant is None:
            raise TokenRefusedError(
                "a token of the controller is wanted"
                if not token
                else "the token is none of this controller's"
            )
        if grant.ends is not None and grant.ends <= self.clock.now_ms():
            raise TokenRefusedError("the token has ended", ended=True)
        for segment in segments:
            if grant.of_stream(*scope_and_stream(segment)) < wanted:
                raise TokenRefusedError(f"the token does not allow {wanted.name} on {segment}")
        return grant.ends


def new_pass(random: Random) -> str:
    """Return what nobody can guess."""
    return random.randbytes(_PASS_BYTES).hex()
