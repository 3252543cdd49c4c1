"""Delegation tokens: what a segment store wants to see with each request where the service asks who comes.

A token is a JWT that the controller signs for one stream; "" where the service asks nobody. One that ends soon is renewed before
it is needed: a segment store closes the connection on a set-up with an expired one, without a word.
"""

import base64
import binascii
from typing import Final

import orjson

from logdrive.clock import Clock
from logdrive.sinks.controller import Controller

_SPARE_MS: Final = 60_000


class Tokens:
    """The tokens of the streams that are read or written, by stream."""

    def __init__(self, controller: Controller, clock: Clock) -> None:
        self._controller, self._clock = controller, clock
        self._tokens: dict[str, tuple[str, int | None]] = {}

    def of(self, segment: str) -> str:
        """Return the token for *segment*, as far as one is known."""
        return self._tokens.get(segment.rpartition("/")[0], ("", None))[0]

    async def fresh(self, scope: str, stream: str) -> None:
        """See to it that the stream's token lasts for a while. Raises what the controller's client raises."""
        held = self._tokens.get(f"{scope}/{stream}")
        if held is None or (held[1] is not None and held[1] - self._clock.now_ms() < _SPARE_MS):
            token = await self._controller.token(scope, stream)
            self._tokens[f"{scope}/{stream}"] = (token, _end_ms(token))

    def refused(self, segment: str) -> None:
        """Forget a token that the segment store did not take."""
        self._tokens.pop(segment.rpartition("/")[0], None)


def _end_ms(token: str) -> int | None:
    """Return when *token* ends, in ms since 1970; None for one that tells no end."""
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        return int(claims["exp"]) * 1000
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
        return None
