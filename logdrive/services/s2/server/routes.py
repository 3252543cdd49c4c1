"""Finds the handler of a request, and answers with what it returns or raises."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Final

from logdrive.errors import LogdriveError
from logdrive.net.http.exchange import HttpRequest, HttpResponse
from logdrive.services.s2.server.failures import as_s2_error
from logdrive.services.s2.server.handlers import account, append, basin, metric, read, stream
from logdrive.services.s2.server.handlers.call import Answer, Call, error_answer
from logdrive.wire.s2.errors import (
    S2Error,
    method_not_allowed,
    no_such_route,
    server_draining,
)
from logdrive.wire.s2.names import decode_segment

if TYPE_CHECKING:
    from logdrive.services.s2.server.service import S2Service

CallHandler = Callable[[Call], Awaitable[Answer | None]]
"""Answers one call: returns the answer, or None if it has sent one itself."""

_NAME: Final = None  # a segment of a path that is a name

_ROUTES: Final[Mapping[tuple[str | None, ...], Mapping[str, CallHandler]]] = {
    ("v1", "basins"): {"GET": basin.list_basins, "POST": basin.create_basin},
    ("v1", "basins", _NAME): {
        "GET": basin.basin_config,
        "PUT": basin.ensure_basin,
        "PATCH": basin.reconfigure_basin,
        "DELETE": basin.delete_basin,
    },
    ("v1", "streams"): {
        "GET": stream.list_streams,
        "POST": stream.create_stream,
    },
    ("v1", "streams", _NAME): {
        "GET": stream.stream_config,
        "PUT": stream.ensure_stream,
        "PATCH": stream.reconfigure_stream,
        "DELETE": stream.delete_stream,
    },
    ("v1", "streams", _NAME, "records"): {
        "GET": read.read,
        "POST": append.append,
    },
    ("v1", "streams", _NAME, "records", "tail"): {"GET": read.check_tail},
    ("v1", "access-tokens"): {
        "GET": account.list_access_tokens,
        "POST": account.issue_access_token,
    },
    ("v1", "access-tokens", _NAME): {"DELETE": account.revoke_access_token},
    ("v1", "locations"): {"GET": account.list_locations},
    ("v1", "locations", "default"): {
        "GET": account.default_location,
        "PUT": account.set_default_location,
    },
    ("v1", "metrics"): {"GET": metric.account_metrics},
    ("v1", "metrics", _NAME): {"GET": metric.basin_metrics},
    ("v1", "metrics", _NAME, _NAME): {"GET": metric.stream_metrics},
    ("health",): {"GET": metric.health},
    ("ping",): {"GET": metric.health},
    ("metrics",): {"GET": metric.prometheus},
}
_REFUSALS: Final = ("authn", "permission_denied")
"""Errors that are logged: refusals of who came."""
_OPEN: Final = (metric.health,)
"""Handlers that ask for no login."""


class Routes:
    """Handles the requests of the S2 face: pass it to `HttpServer`."""

    def __init__(self, service: "S2Service") -> None:
        self._service = service

    async def __call__(self, request: HttpRequest, response: HttpResponse) -> None:
        """Answer *request*. Raises `TransientError` where the client is gone."""
        call = Call(self._service, request, response, self._service.anyone)
        try:
            answer = await self._answer(call)
        except S2Error as error:
            if error.code in _REFUSALS:
                what = f"{request.method} {request.path}"
                self._service.refusals.note(request.peer.address, what, error.code, str(error))
            answer = error_answer(error)
        except LogdriveError as error:
            if response.started:
                raise
            answer = error_answer(as_s2_error(error))
        if answer is not None:
            await call.send(answer)

    async def _answer(self, call: Call) -> Answer | None:
        handler, call.names = find_handler(call.request.method, call.request.path)
        if handler not in _OPEN:
            await self._service.resolve_doubt()
            call.principal = await self._service.principals.identify(call.header("authorization"))
            if self._service.draining.is_set() and (call.is_session() or call.wants_events()):
                raise server_draining("the store is about to stop")
        return await handler(call)


def find_handler(method: str, path: str) -> tuple[CallHandler, tuple[str, ...]]:
    """Return the handler of a request, and the names in its *path*, decoded.

    The path is cut before it is decoded: a name may contain slashes. Raises `S2Error`.
    """
    segments = path.removeprefix("/").split("/")
    for pattern, handlers in _ROUTES.items():
        if len(pattern) == len(segments) and all(
            wanted is _NAME or wanted == segment
            for wanted, segment in zip(pattern, segments, strict=True)
        ):
            if method not in handlers:
                raise method_not_allowed()
            names = [
                decode_segment(segment)
                for wanted, segment in zip(pattern, segments, strict=True)
                if wanted is _NAME
            ]
            return handlers[method], tuple(names)
    raise no_such_route()
