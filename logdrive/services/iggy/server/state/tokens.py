"""Personal access tokens: with one a client logs in as its user. Only their SHA-256 is stored."""

import base64
import hashlib
from random import Random
from typing import Final

from logdrive.host.clock import Clock
from logdrive.services.iggy.server.state.records import PersonalTokenPut, RegisteredToken
from logdrive.services.iggy.server.state.registry import IggyRegistry
from logdrive.services.iggy.server.state.users import IggyUsers
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.limits import NEVER, TOKENS_PER_USER

_SECRET_BYTES: Final = 50
"""Random bytes of a token: 67 characters, as many as the real servers' tokens have."""


class PersonalTokens:
    """The tokens of all users of a store. Methods raise `IggyError`, and what the store raises."""

    def __init__(
        self, registry: IggyRegistry, users: IggyUsers, *, clock: Clock, random: Random
    ) -> None:
        self._registry = registry
        self._users = users
        self._clock = clock
        self._random = random

    def of_user(self, user: int) -> dict[str, RegisteredToken]:
        """Return the tokens of a user, by name; expired ones too."""
        return self._registry.state.tokens.get(user, {})

    async def create(self, user: int, name: str, expiry_us: int | None) -> str:
        """Store a new token, valid for *expiry_us* (None or `NEVER`: always); return its text."""
        expires = None
        if expiry_us not in (None, NEVER):
            expires = self._clock.now_ms() * 1000 + expiry_us
        text = base64.urlsafe_b64encode(self._random.randbytes(_SECRET_BYTES)).decode().rstrip("=")
        async with self._registry.turn():
            mine = self.of_user(user)
            if name in mine and not self._has_expired(mine[name]):
                raise IggyError(Reason.TOKEN_EXISTS, f"token {name!r} exists")
            if name not in mine and len(mine) >= TOKENS_PER_USER:
                raise IggyError(
                    Reason.TOO_MANY_TOKENS, f"the user has {TOKENS_PER_USER} tokens: delete some"
                )
            token = RegisteredToken(_digest(text), expires)
            await self._registry.commit_puts([PersonalTokenPut(user, name, token)])
        return text

    async def delete(self, user: int, name: str) -> None:
        """Delete a token of a user."""
        async with self._registry.turn():
            if name not in self.of_user(user):
                raise IggyError(Reason.RESOURCE_NOT_FOUND, f"there is no token {name!r}")
            await self._registry.commit_puts([PersonalTokenPut(user, name, None)])

    def log_in(self, text: str) -> int:
        """Return the number of the user whose token *text* is."""
        owner = self._registry.state.token_owners.get(_digest(text))
        if owner is None or (user := self._users.find(owner[0])) is None:
            raise IggyError(Reason.RESOURCE_NOT_FOUND, "the token is not known")
        if self._has_expired(self.of_user(owner[0])[owner[1]]):
            raise IggyError(Reason.TOKEN_EXPIRED, f"token {owner[1]!r} has expired")
        if not user.active:
            raise IggyError(Reason.USER_INACTIVE, f"user {user.name!r} is not active")
        return user.id

    def _has_expired(self, token: RegisteredToken) -> bool:
        return token.expires_us is not None and token.expires_us <= self._clock.now_ms() * 1000


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode(errors="replace")).hexdigest()
