"""Who may call which method of the controller, and the tokens that answers carry (specification,
section 6).

It stands before all methods and knows of each only its request: which streams or scope that names,
and whether the method's name says that it only looks. What is not known here takes the highest
permission, or is refused.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import grpc
import grpc.aio
import structlog
from google.protobuf.message import Message

from logdrive.errors import TransientError
from logdrive.services.auth.open import Access
from logdrive.services.auth.permissions import Grants, Permission
from logdrive.services.auth.users import UnknownUserError, User
from logdrive.wire.pravega.controller import controller_pb2 as pb
from logdrive.wire.pravega.names import KV_TABLE_SUFFIX

ScopedName = tuple[str, str | None]
"""A scope and a stream of it, or the scope as a whole."""

_LOOKING: Final = ("get", "list", "check", "is")
_FREE: Final = ("listScopes", "getControllerServerList")
_OF_SCOPES_SEEN: Final = (
    "checkScopeExists",
    "listStreamsInScope",
    "listStreamsInScopeForTag",
    "listKeyValueTablesInScope",
)
_OF_TABLES_TOO: Final = ("getDelegationToken",)
"""The Java client names a key-value table as if it were a stream.

What is told is for either, as far as its user may.
"""
_TABLE: Final = "{}" + KV_TABLE_SUFFIX
_TOKEN: Final = "delegationToken"  # noqa: S105 - the name of a field
_WRITING: Final = (pb.StreamInfo.WRITE, pb.StreamInfo.READ_WRITE)

Call = Callable[[Any, "grpc.aio.ServicerContext[Any, Any]"], Awaitable[Message]]


class ControllerAuthorization(grpc.GenericRpcHandler):
    """Lets calls through to *handlers* from users who may make them."""

    def __init__(self, handlers: grpc.GenericRpcHandler, access: Access) -> None:
        self._handlers, self._access = handlers, access

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """Return what answers the call, as gRPC asks for it."""
        found: Any = self._handlers.service(handler_call_details)
        if found is None:
            return None
        method = handler_call_details.method.rpartition("/")[2]
        metadata: Iterable[Any] = handler_call_details.invocation_metadata or ()
        shown = next((value for key, value in metadata if key == "authorization"), None)
        authorization = shown.decode(errors="replace") if isinstance(shown, bytes) else shown
        return grpc.unary_unary_rpc_method_handler(
            self._guarded(method, authorization, found.unary_unary),
            found.request_deserializer,
            found.response_serializer,
        )

    def _guarded(self, method: str, authorization: str | None, call: Call) -> Call:
        async def answer(
            request: Message, context: "grpc.aio.ServicerContext[Any, Any]"
        ) -> Message:
            try:
                user = await self._access.users.identified(authorization)
            except UnknownUserError as error:
                await self._refuse(context, grpc.StatusCode.UNAUTHENTICATED, method, str(error))
            except TransientError as error:
                await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            if (reason := refusal(user, method, request)) is not None:
                await self._refuse(context, grpc.StatusCode.PERMISSION_DENIED, method, reason)
            told = await call(request, context)
            _keep_seen(user.grants, told)
            if _TOKEN in told.DESCRIPTOR.fields_by_name:
                setattr(told, _TOKEN, self._token(user.grants, method, request))
            return told

        return answer

    def _token(self, grants: Grants, method: str, request: Message) -> str:
        scope, stream = places_of(request)[0]
        assert stream is not None, "answers about scopes carry no tokens"
        info = (
            request if isinstance(request, pb.StreamInfo) else getattr(request, "streamInfo", None)
        )
        most = (
            Permission.READ
            if info is not None and info.accessOperation == pb.StreamInfo.READ
            else Permission.READ_UPDATE
        )
        names = (stream, _TABLE.format(stream)) if method in _OF_TABLES_TOO else (stream,)
        return self._access.tokens.signed(
            scope, {name: min(most, grants.of_stream(scope, name)) for name in names}
        )

    async def _refuse(
        self,
        context: "grpc.aio.ServicerContext[Any, Any]",
        code: grpc.StatusCode,
        method: str,
        reason: str,
    ) -> None:
        structlog.get_logger("logdrive.store.controller").info(
            "a call was refused", peer=context.peer(), method=method, reason=reason
        )
        await context.abort(code, reason)


def refusal(user: User, method: str, request: Message) -> str | None:
    """Return why *user* may not call *method* with *request*; None where they may."""
    if method in _FREE:
        return None
    places = places_of(request)
    if not places:
        return f"{method} is for nobody"
    wanted = Permission.READ if method.startswith(_LOOKING) else Permission.READ_UPDATE
    if isinstance(request, pb.StreamInfo) and request.accessOperation in _WRITING:
        wanted = Permission.READ_UPDATE
    places += [
        (cut.streamInfo.scope, cut.streamInfo.stream)
        for cut in getattr(request, "startingStreamCuts", ())
    ]
    for number, (scope, stream) in enumerate(places):
        if "/" in f"{scope}{stream}":
            # in a token they could be taken for others
            return f"{scope!r} and {stream!r} are no names"
        if number:
            wanted = Permission.READ  # streams that a group reads
        if stream is None and method in _OF_SCOPES_SEEN:
            allowed = user.grants.sees(scope)
        else:
            held = (
                user.grants.of_scope(scope)
                if stream is None
                else user.grants.of_stream(scope, stream)
            )
            if method in _OF_TABLES_TOO:
                held = max(held, user.grants.of_stream(scope, _TABLE.format(stream)))
            allowed = held >= wanted
        if not allowed:
            return (
                f"{user.name} may not {wanted.name} {scope}/{stream or '*'}, which {method} takes"
            )
    return None


def places_of(request: Any) -> list[ScopedName]:
    """Return what *request* is about, the main thing first; nothing for one of an unknown kind."""
    if isinstance(request, pb.StreamInfo):
        return [(request.scope, request.stream)]
    for field in ("streamInfo", "streamCut", "position", "stream"):
        if hasattr(request, field):
            return places_of(getattr(request, field))
    scope = getattr(request, "scope", None)
    if scope is None:
        return []
    if not isinstance(scope, str):
        return [(scope.scope, None)]
    for field, name in (
        ("kvtName", _TABLE),
        ("readerGroup", "_RG{}"),
        ("readerGroupName", "_RG{}"),
    ):
        if hasattr(request, field):
            return [(scope, name.format(getattr(request, field)))]
    return [(scope, None)]


def _keep_seen(grants: Grants, told: Any) -> None:
    """Leave out of a list what the user may not even look at."""
    fields = told.DESCRIPTOR.fields_by_name
    if "scopes" in fields:
        _keep(told.scopes, grants.sees)
    if "streams" in fields:
        _keep(
            told.streams, lambda info: grants.of_stream(info.scope, info.stream) > Permission.NONE
        )
    if "kvtables" in fields:
        _keep(
            told.kvtables,
            lambda info: (
                grants.of_stream(info.scope, _TABLE.format(info.kvtName)) > Permission.NONE
            ),
        )


def _keep(items: Any, good: Callable[[Any], bool]) -> None:
    kept = [item for item in items if good(item)]
    del items[:]
    items.extend(kept)
