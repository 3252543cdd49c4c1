"""Delegation tokens: what a segment store wants to see with each request where the service asks who
comes.

A token is a JWT that the controller signs for one stream; "" where the service asks nobody. One
that ends soon is renewed before it is needed: a segment store closes the connection on a set-up
with an expired one, some without a word.
"""

import asyncio
import base64
import binascii
import contextlib
from typing import Final

import orjson

from logdrive.errors import LogdriveError
from logdrive.host.clock import Clock
from logdrive.services.pravega.client.controller import ControllerClient
from logdrive.wire.pravega.names import scope_and_stream

_SPARE_MS: Final = 60_000
_SPARE_PART: Final = 4  # of a token that lasts less than some minutes
_PAUSE_SECONDS: Final = 1.0
_LONGEST_WAIT_MS: Final = 3_600_000


class StreamTokens:
    """The tokens of the streams that are read, or with *update* written, by stream.

    `run` renews them meanwhile.
    """

    def __init__(self, controller: ControllerClient, clock: Clock, *, update: bool = True) -> None:
        self._controller, self._clock, self._update = controller, clock, update
        self._tokens: dict[tuple[str, str], tuple[str, int | None]] = {}
        self._asking = asyncio.Lock()
        self._changed = asyncio.Event()

    def of(self, segment: str) -> str:
        """Return the token for *segment*, as far as one is known."""
        return self._tokens.get(scope_and_stream(segment), ("", None))[0]

    async def fresh(self, scope: str, stream: str) -> None:
        """See to it that the stream's token lasts for a while.

        Raises what the controller's client raises.
        """
        if self._left_ms((scope, stream)) > 0:
            return
        async with self._asking:  # many ask at once, after a connection ended
            if self._left_ms((scope, stream)) <= 0:
                token = await self._controller.token(scope, stream, update=self._update)
                self._tokens[scope, stream] = (token, _renewal_ms(token, self._clock.now_ms()))
                self._changed.set()

    def refused(self, segment: str) -> None:
        """Take note that the segment store did not take a token: it is asked for anew."""
        if (stream := scope_and_stream(segment)) in self._tokens:
            self._tokens[stream] = ("", 0)
            self._changed.set()

    async def run(self) -> None:
        """Renew tokens in time, until cancelled; what fails is tried again, as whoever needs a
        token will tell.
        """
        while True:
            self._changed.clear()
            for scope, stream in [stream for stream in self._tokens if self._left_ms(stream) <= 0]:
                with contextlib.suppress(LogdriveError):
                    await self.fresh(scope, stream)
            await self._clock.sleep(_PAUSE_SECONDS)
            wait = min(map(self._left_ms, self._tokens), default=_LONGEST_WAIT_MS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0, wait) / 1000):
                    await self._changed.wait()

    def _left_ms(self, stream: tuple[str, str]) -> int:
        """Return in how many ms the token is to be renewed, 0 or less where it is time; not more
        than an hour.
        """
        if stream not in self._tokens:
            return 0
        renewal = self._tokens[stream][1]
        return (
            _LONGEST_WAIT_MS
            if renewal is None
            else min(_LONGEST_WAIT_MS, renewal - self._clock.now_ms())
        )


def _renewal_ms(token: str, now: int) -> int | None:
    """Return when *token* is to be renewed, in ms since 1970; None for one that tells no end."""
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        ends = int(claims["exp"]) * 1000
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
        return None
    return ends - min(_SPARE_MS, (ends - now) // _SPARE_PART)
