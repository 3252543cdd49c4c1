"""Runs a handler so that its failure never ends the connection that it answers on."""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from logdrive.errors import TransientError
from logdrive.net.http.errors import BodyTooLargeError
from logdrive.net.http.exchange import Handler, HttpRequest, HttpResponse

_log = structlog.get_logger("logdrive.net.http")
_QUIET_SECONDS: Final = 10.0
"""Seconds between two warnings of one kind."""
_REASON_CHARS: Final = 200


class FaultLog:
    """Warnings about peers that break HTTP or a limit: at most one of a kind in ten seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last: dict[str, float] = {}  # when a kind was last logged, in seconds
        self._silent: dict[str, int] = {}  # faults of a kind since then

    def note_fault(self, peer: str, reason: str, limit: str) -> None:
        """Log that *peer* was disconnected, unless the same *limit* was logged just before."""
        now = self._clock()
        if now - self._last.get(limit, float("-inf")) < _QUIET_SECONDS:
            self._silent[limit] = self._silent.get(limit, 0) + 1
            return
        self._last[limit] = now
        _log.warning(
            "an HTTP peer was disconnected",
            peer=peer,
            reason=reason[:_REASON_CHARS],  # it may quote the peer
            limit=limit or None,
            others_before=self._silent.pop(limit, 0),
        )


async def run_handler(handler: Handler, request: HttpRequest, response: HttpResponse) -> None:
    """Let *handler* answer *request*; whatever it does, the response ends."""
    what = {"method": request.method, "path": request.path, "peer": request.peer.address}
    try:
        await handler(request, response)
    except TransientError:  # of this stream: the peer has left
        response.abort()
    except asyncio.CancelledError:
        response.abort()
        raise
    except BodyTooLargeError as error:
        await _fail(response, 413, str(error))
    except Exception:
        _log.exception("an HTTP request failed", **what)
        await _fail(response, 500, "internal error")
    else:
        if not response.ended:
            _log.error("an HTTP handler ended before its response", **what)
            await _fail(response, 500, "internal error")


async def _fail(response: HttpResponse, status: int, text: str) -> None:
    if response.started:
        response.abort()
        return
    try:
        await response.respond(status, [("content-type", "text/plain")], f"{text}\n".encode())
    except Exception:  # the peer has left, or what failed was the head: that was logged
        response.abort()


async def refuse_target(_request: HttpRequest, response: HttpResponse) -> None:
    """Answer a request that names no path, such as CONNECT."""
    await response.respond(400, [("content-type", "text/plain")], b"the target is not a path\n")
