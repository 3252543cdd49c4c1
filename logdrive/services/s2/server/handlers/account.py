"""Handlers of the requests about access tokens and locations."""

from datetime import datetime
from typing import Final

import msgspec
import orjson

from logdrive.services.s2.server.handlers.call import Answer, Call
from logdrive.services.s2.server.locations import DOCUMENT, check_location
from logdrive.services.s2.server.state import NameSet, OperationGroups, S2Token, TokenScope
from logdrive.wire.s2.errors import bad_json
from logdrive.wire.s2.info import epoch_ms, rfc3339
from logdrive.wire.s2.queries import parse_list_query


class _WantedScope(msgspec.Struct):
    """A scope as clients send it: S2's CLI writes null for what it leaves out."""

    basins: NameSet | None = None
    streams: NameSet | None = None
    access_tokens: NameSet | None = None
    op_groups: OperationGroups | None = None
    ops: tuple[str, ...] | None = None

    def scope(self) -> TokenScope:
        return TokenScope(
            self.basins, self.streams, self.access_tokens, self.op_groups, self.ops or ()
        )


class _IssueToken(msgspec.Struct):
    """A request to issue an access token."""

    id: str
    scope: _WantedScope
    auto_prefix_streams: bool | None = None
    expires_at: datetime | None = None


_ISSUE: Final = msgspec.json.Decoder(_IssueToken)


async def list_access_tokens(call: Call) -> Answer:
    """GET /v1/access-tokens."""
    call.principal.check("list-access-tokens")
    query = parse_list_query(call.request.query)
    page, more = call.service.tokens.page(
        query.prefix, query.start_after, query.limit, call.principal.sees_token
    )
    documents = [_document(id_, token) for id_, token in page]
    return Answer(200, orjson.dumps({"access_tokens": documents, "has_more": more}))


async def issue_access_token(call: Call) -> Answer:
    """POST /v1/access-tokens."""
    try:
        wanted = _ISSUE.decode(await call.json_body())
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_json(str(error)) from error
    call.principal.check("issue-access-token", token_id=wanted.id)
    text = await call.service.tokens.issue(
        wanted.id,
        wanted.scope.scope(),
        auto_prefix_streams=bool(wanted.auto_prefix_streams),
        expires_ms=epoch_ms(wanted.expires_at) if wanted.expires_at is not None else None,
        issuer=call.principal.token,
    )
    return Answer(201, orjson.dumps({"access_token": text}))


async def revoke_access_token(call: Call) -> Answer:
    """DELETE /v1/access-tokens/{id}."""
    call.principal.check("revoke-access-token", token_id=call.names[0])
    await call.service.tokens.revoke(call.names[0])
    return Answer(204)


async def list_locations(call: Call) -> Answer:
    """GET /v1/locations."""
    call.principal.check("list-locations")
    return Answer(200, orjson.dumps([DOCUMENT]))


async def default_location(call: Call) -> Answer:
    """GET /v1/locations/default."""
    call.principal.check("get-default-location")
    return Answer(200, orjson.dumps(DOCUMENT))


async def set_default_location(call: Call) -> Answer:
    """PUT /v1/locations/default: the name as a bare JSON string."""
    try:
        name = msgspec.json.decode(await call.json_body(), type=str)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_json(str(error)) from error
    call.principal.check("set-default-location")
    check_location(name)
    return Answer(200, orjson.dumps(DOCUMENT))


def _document(id_: str, token: S2Token) -> dict[str, object]:
    return {
        "id": id_,
        "scope": msgspec.to_builtins(token.scope),
        "auto_prefix_streams": token.auto_prefix_streams,
        "expires_at": None if token.expires_ms is None else rfc3339(token.expires_ms),
    }
