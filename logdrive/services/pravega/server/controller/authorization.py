"""Authorization of calls to the controller, and tokens in its answers
(docs/protocols/pravega-controller.md).

`ControllerAuthorization` wraps all methods. It decides from the request, by the scope or streams in
it, and from the method's name, by whether that only reads. A method that is unknown here needs the
highest permission; one whose request names nothing is refused.
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
"""A scope and one of its streams; None for the scope as a whole."""

_READING_PREFIXES: Final = ("get", "list", "check", "is")
_PUBLIC_METHODS: Final = ("listScopes", "getControllerServerList")
"""Methods for every user; lists have only what the user may read."""
_SEE_SCOPE_METHODS: Final = (
    "checkScopeExists",
    "listStreamsInScope",
    "listStreamsInScopeForTag",
    "listKeyValueTablesInScope",
)
"""Methods for users with any grant on a stream of the scope."""
_STREAM_OR_TABLE_METHODS: Final = ("getDelegationToken",)
"""Methods for which the Java client names a key-value table as if it were a stream.

The token is for both, as far as the user's grants allow.
"""
_TABLE: Final = "{}" + KV_TABLE_SUFFIX
_TOKEN: Final = "delegationToken"  # noqa: S105 - the name of a field
_WRITING: Final = (pb.StreamInfo.WRITE, pb.StreamInfo.READ_WRITE)

GrpcMethod = Callable[[Any, "grpc.aio.ServicerContext[Any, Any]"], Awaitable[Message]]


class ControllerAuthorization(grpc.GenericRpcHandler):
    """Passes calls that their user may make on to *handlers*, and adds tokens to the answers."""

    def __init__(self, handlers: grpc.GenericRpcHandler, access: Access) -> None:
        self._handlers = handlers
        self._access = access

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> "grpc.RpcMethodHandler[Any, Any] | None":
        """Return the handler of a call, as gRPC asks for it; None for an unknown method."""
        handler: Any = self._handlers.service(handler_call_details)
        if handler is None:
            return None
        method = handler_call_details.method.rpartition("/")[2]
        metadata: Iterable[Any] = handler_call_details.invocation_metadata or ()
        header = next((value for key, value in metadata if key == "authorization"), None)
        authorization = header.decode(errors="replace") if isinstance(header, bytes) else header
        return grpc.unary_unary_rpc_method_handler(
            self._authorized(method, authorization, handler.unary_unary),
            handler.request_deserializer,
            handler.response_serializer,
        )

    def _authorized(self, method: str, authorization: str | None, call: GrpcMethod) -> GrpcMethod:
        """Return *call* behind the checks of the user and of their permissions."""

        async def answer(
            request: Message, context: "grpc.aio.ServicerContext[Any, Any]"
        ) -> Message:
            try:
                user = await self._access.users.authenticate(authorization)
            except UnknownUserError as error:
                await self._refuse(context, grpc.StatusCode.UNAUTHENTICATED, method, str(error))
            except TransientError as error:
                await context.abort(grpc.StatusCode.UNAVAILABLE, str(error))
            if (reason := refusal_reason(user, method, request)) is not None:
                await self._refuse(context, grpc.StatusCode.PERMISSION_DENIED, method, reason)

            reply = await call(request, context)
            _remove_unreadable(user.grants, reply)
            if _TOKEN in reply.DESCRIPTOR.fields_by_name:
                setattr(reply, _TOKEN, self._token(user.grants, method, request))
            return reply

        return answer

    def _token(self, grants: Grants, method: str, request: Message) -> str:
        """Return a token for the stream of *request*, with no more than *grants* allow."""
        scope, stream = names_in_request(request)[0]
        assert stream is not None, "answers about scopes carry no tokens"
        info = (
            request if isinstance(request, pb.StreamInfo) else getattr(request, "streamInfo", None)
        )
        # a client that says it only reads gets a token that only reads
        highest = (
            Permission.READ
            if info is not None and info.accessOperation == pb.StreamInfo.READ
            else Permission.READ_UPDATE
        )
        names = (stream, _TABLE.format(stream)) if method in _STREAM_OR_TABLE_METHODS else (stream,)
        return self._access.signer.sign_token(
            scope, {name: min(highest, grants.stream_permission(scope, name)) for name in names}
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


def refusal_reason(user: User, method: str, request: Message) -> str | None:
    """Return why *user* may not call *method* with *request*; None where they may."""
    if method in _PUBLIC_METHODS:
        return None
    names = names_in_request(request)
    if not names:
        return f"{method} is not allowed to any user"

    wanted = Permission.READ if method.startswith(_READING_PREFIXES) else Permission.READ_UPDATE
    if isinstance(request, pb.StreamInfo) and request.accessOperation in _WRITING:
        wanted = Permission.READ_UPDATE
    # the streams that a reader group reads, behind the group itself
    names += [
        (cut.streamInfo.scope, cut.streamInfo.stream)
        for cut in getattr(request, "startingStreamCuts", ())
    ]
    for number, (scope, stream) in enumerate(names):
        # in a token, "a/b" in one name would be the same as "a" and "b" in two
        if "/" in f"{scope}{stream}":
            return f"{scope!r} and {stream!r} are not names of a scope and a stream"
        if number:
            wanted = Permission.READ
        if not _is_allowed(user.grants, method, scope, stream, wanted):
            return (
                f"{user.name} may not {wanted.name} {scope}/{stream or '*'}, which {method} needs"
            )
    return None


def _is_allowed(
    grants: Grants, method: str, scope: str, stream: str | None, wanted: Permission
) -> bool:
    if stream is None:  # the scope as a whole
        if method in _SEE_SCOPE_METHODS:
            return grants.may_see_scope(scope)
        return grants.scope_permission(scope) >= wanted

    permission = grants.stream_permission(scope, stream)
    if method in _STREAM_OR_TABLE_METHODS:
        permission = max(permission, grants.stream_permission(scope, _TABLE.format(stream)))
    return permission >= wanted


def names_in_request(request: Any) -> list[ScopedName]:
    """Return the names in *request*, the main one first; nothing for an unknown kind of request."""
    if isinstance(request, pb.StreamInfo):
        return [(request.scope, request.stream)]
    for field in ("streamInfo", "streamCut", "position", "stream"):
        if hasattr(request, field):
            return names_in_request(getattr(request, field))
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


def _remove_unreadable(grants: Grants, reply: Any) -> None:
    """Remove from the lists in *reply* what *grants* do not allow to read."""
    fields = reply.DESCRIPTOR.fields_by_name
    if "scopes" in fields:
        _keep(reply.scopes, grants.may_see_scope)
    if "streams" in fields:
        _keep(
            reply.streams,
            lambda info: grants.stream_permission(info.scope, info.stream) > Permission.NONE,
        )
    if "kvtables" in fields:
        _keep(
            reply.kvtables,
            lambda info: (
                grants.stream_permission(info.scope, _TABLE.format(info.kvtName)) > Permission.NONE
            ),
        )


def _keep(items: Any, good: Callable[[Any], bool]) -> None:
    kept = [item for item in items if good(item)]
    del items[:]
    items.extend(kept)
