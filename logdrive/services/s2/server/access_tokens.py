"""Access tokens: issued, listed, revoked and recognized. Only their SHA-256 is stored."""

import base64
import hashlib
from collections.abc import Callable
from random import Random
from typing import Final

from logdrive.host.clock import Clock
from logdrive.services.s2.server.operations import ALL, is_within, permitted_operations
from logdrive.services.s2.server.paging import page_of
from logdrive.services.s2.server.registry import Registry
from logdrive.services.s2.server.state import NameSet, S2Token, TokenPut, TokenScope
from logdrive.wire.s2.errors import (
    access_token_not_found,
    invalid,
    permission_denied,
    resource_already_exists,
)
from logdrive.wire.s2.limits import ACCESS_TOKEN_ID_BYTES

_SECRET_BYTES: Final = 32
_MOST_TOKENS: Final = 10_000
"""Limit on the access tokens of a store: all are in memory."""


class AccessTokens:
    """The access tokens of one store. Methods raise `S2Error`."""

    def __init__(self, registry: Registry, *, clock: Clock, random: Random) -> None:
        self._registry = registry
        self._clock = clock
        self._random = random

    def recognize(self, text: str) -> S2Token | None:
        """Return the token whose text is *text*; None if it was not issued, or has expired."""
        digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()
        id_ = self._registry.state.token_ids.get(digest)
        token = self._registry.state.tokens[id_] if id_ is not None else None
        if token is None or self._has_expired(token):
            return None
        return token

    def was_issued(self, text: str) -> bool:
        """Return whether *text* is that of a token, whether it is valid or not any more."""
        digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()
        state = self._registry.state
        return digest in state.token_ids or digest in state.ended_tokens

    def is_valid(self, token: S2Token) -> bool:
        """Return whether *token*, which was recognized once, has neither expired nor gone."""
        return token.digest in self._registry.state.token_ids and not self._has_expired(token)

    async def issue(
        self,
        id_: str,
        scope: TokenScope,
        *,
        auto_prefix_streams: bool,
        expires_ms: int | None,
        issuer: S2Token | None = None,
    ) -> str:
        """Store a new token and return its text. An *issuer* can't give more than it has itself."""
        self._check(id_, scope, auto_prefix_streams, expires_ms)
        if issuer is not None:
            expires_ms = _check_issuer(issuer, scope, expires_ms)
        text = base64.urlsafe_b64encode(self._random.randbytes(_SECRET_BYTES)).decode().rstrip("=")
        token = S2Token(
            digest=hashlib.sha256(text.encode()).hexdigest(),
            scope=scope,
            auto_prefix_streams=auto_prefix_streams,
            expires_ms=expires_ms,
        )
        async with self._registry.turn() as state:
            existing = state.tokens.get(id_)
            if existing is not None and not self._has_expired(existing):
                raise resource_already_exists(f"access token {id_!r} exists")
            if existing is None and len(state.tokens) >= _MOST_TOKENS:
                raise invalid(f"there are {_MOST_TOKENS} access tokens: revoke some first")
            await self._registry.commit_puts([TokenPut(id_, token)])
        return text

    async def revoke(self, id_: str) -> None:
        """Forget a token."""
        async with self._registry.turn() as state:
            if id_ not in state.tokens:
                raise access_token_not_found(id_)
            await self._registry.commit_puts([TokenPut(id_, None)])

    def page(
        self, prefix: str, start_after: str, limit: int, sees: Callable[[str], bool]
    ) -> tuple[list[tuple[str, S2Token]], bool]:
        """Return one page of the valid tokens with their ids, and whether there are more."""
        tokens = self._registry.state.tokens
        names = [id_ for id_ in tokens if sees(id_) and not self._has_expired(tokens[id_])]
        page, more = page_of(names, prefix, start_after, limit)
        return [(id_, tokens[id_]) for id_ in page], more

    def _has_expired(self, token: S2Token) -> bool:
        return token.expires_ms is not None and token.expires_ms <= self._clock.now_ms()

    def _check(
        self, id_: str, scope: TokenScope, auto_prefix_streams: bool, expires_ms: int | None
    ) -> None:
        if not 1 <= len(id_.encode()) <= ACCESS_TOKEN_ID_BYTES or "\0" in id_:
            raise invalid(f"an access token's id has 1 to {ACCESS_TOKEN_ID_BYTES} bytes")
        if unknown := [name for name in scope.ops if name not in ALL]:
            raise invalid(f"there is no operation {unknown[0][:100]!r}")
        if not permitted_operations(scope):
            raise invalid("the scope allows no operation: give ops or op_groups")
        for names in (scope.basins, scope.streams, scope.access_tokens):
            _check_names(names)
        if auto_prefix_streams and (scope.streams is None or scope.streams.prefix is None):
            raise invalid("auto_prefix_streams needs a prefix: give scope.streams.prefix")
        if expires_ms is not None and expires_ms <= self._clock.now_ms():
            raise invalid("expires_at is past")


def _check_names(names: NameSet | None) -> None:
    if names is not None and (names.exact is None) == (names.prefix is None):
        raise invalid("names are given by either exact or prefix")


def _check_issuer(issuer: S2Token, scope: TokenScope, expires_ms: int | None) -> int | None:
    """Return when the new token expires. Raises `S2Error` where it would be the wider one."""
    wider = permitted_operations(scope) - permitted_operations(issuer.scope)
    if wider:
        raise permission_denied(f"your token does not allow {sorted(wider)[0]}")
    mine = issuer.scope
    for what, inner, outer in (
        ("basins", scope.basins, mine.basins),
        ("streams", scope.streams, mine.streams),
        ("access_tokens", scope.access_tokens, mine.access_tokens),
    ):
        if not is_within(inner, outer):
            raise permission_denied(f"your token does not reach all of these {what}")
    if issuer.expires_ms is None:
        return expires_ms
    return min(issuer.expires_ms, expires_ms if expires_ms is not None else issuer.expires_ms)
