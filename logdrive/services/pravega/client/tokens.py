"""Delegation tokens for the streams of a service, renewed before they expire.

A token is a JWT that the controller signs for one stream. A segment store checks it in each
request; it is "" if the service does not check. A token is renewed ahead of time, because a segment
store closes the connection when a writer is set up with an expired one, some without a reply.
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

_SPARE_MS: Final = 60_000  # a token is renewed this long before it expires,
_SPARE_PART: Final = 4  # or after 3/4 of its time, if that is later
_PAUSE_SECONDS: Final = 1.0  # between two rounds of renewals
_LONGEST_WAIT_MS: Final = 3_600_000


class StreamTokens:
    """The tokens of several streams, to write them (*update*) or only to read them.

    `ensure_fresh` gets the first token of a stream; `run`, as a task, renews it.
    """

    def __init__(self, controller: ControllerClient, clock: Clock, *, update: bool = True) -> None:
        self._controller = controller
        self._clock = clock
        self._update = update
        # By (scope, stream): the token and when to renew it, in ms since 1970 (None: never).
        self._tokens: dict[tuple[str, str], tuple[str, int | None]] = {}
        self._asking = asyncio.Lock()
        # Set when `run` must look at the times again.
        self._changed = asyncio.Event()

    def token_of(self, segment: str) -> str:
        """Return the token for the stream of *segment*, "" if none is known (a `TokenOf`)."""
        return self._tokens.get(scope_and_stream(segment), ("", None))[0]

    async def ensure_fresh(self, scope: str, stream: str) -> None:
        """Get a token for the stream if there is none, or if it expires soon.

        Raises what `ControllerClient.delegation_token` raises.
        """
        if self._left_ms((scope, stream)) > 0:
            return
        async with self._asking:  # after a connection ended, many callers need a token at once
            if self._left_ms((scope, stream)) <= 0:
                token = await self._controller.delegation_token(scope, stream, update=self._update)
                self._tokens[scope, stream] = (token, _renewal_ms(token, self._clock.now_ms()))
                self._changed.set()

    def forget_token(self, segment: str) -> None:
        """Forget the token for the stream of *segment*, which a segment store refused."""
        if (stream := scope_and_stream(segment)) in self._tokens:
            self._tokens[stream] = ("", 0)  # due now
            self._changed.set()

    async def run(self) -> None:
        """Renew tokens in time, until cancelled.

        A failure is not logged here, but tried again: a request without a valid token fails loudly.
        """
        while True:
            self._changed.clear()
            for scope, stream in [stream for stream in self._tokens if self._left_ms(stream) <= 0]:
                with contextlib.suppress(LogdriveError):
                    await self.ensure_fresh(scope, stream)
            # don't ask without a pause: the controller may be away, or grant very short tokens
            await self._clock.sleep(_PAUSE_SECONDS)
            wait = min(map(self._left_ms, self._tokens), default=_LONGEST_WAIT_MS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(max(0, wait) / 1000):
                    await self._changed.wait()

    def _left_ms(self, stream: tuple[str, str]) -> int:
        """Return the ms until the token must be renewed, at most an hour; 0 or less: now."""
        if stream not in self._tokens:
            return 0
        renewal = self._tokens[stream][1]
        return (
            _LONGEST_WAIT_MS
            if renewal is None
            else min(_LONGEST_WAIT_MS, renewal - self._clock.now_ms())
        )


def _renewal_ms(token: str, now_ms: int) -> int | None:
    """Return when to renew *token*, in ms since 1970; None if it does not say when it expires."""
    try:
        claims = orjson.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        ends = int(claims["exp"]) * 1000
    except (IndexError, KeyError, TypeError, ValueError, binascii.Error):
        return None
    return ends - min(_SPARE_MS, (ends - now_ms) // _SPARE_PART)
