"""Users: their logins, and what they may do.

There are users of the users file, whose grants are their permissions, and users that were created
over the protocol. Without a users file one user is there from the start, who may do everything.
"""

import asyncio
import base64
import hmac
from collections.abc import Iterator
from random import Random
from typing import Final

from msgspec.structs import replace

from logdrive.errors import TransientError
from logdrive.host.clock import Clock
from logdrive.host.executor import Executor
from logdrive.services.auth import passwords
from logdrive.services.auth.users import UnknownUserError, Users
from logdrive.services.iggy.server.state.records import (
    CountersPut,
    IggyPut,
    RegisteredUser,
    UserPut,
)
from logdrive.services.iggy.server.state.registry import IggyRegistry
from logdrive.services.iggy.server.state.rights import (
    Right,
    RightTarget,
    grants_permit,
    permissions_of,
    permits,
)
from logdrive.services.iggy.server.state.tables import IggyState
from logdrive.wire.iggy.errors import IggyError, Reason
from logdrive.wire.iggy.identifiers import Identifier
from logdrive.wire.iggy.permissions import ALL_PERMISSIONS, Permissions

ROOT: Final = "iggy"
"""Name, and first password, of the user who is there without a users file."""
ROOT_ID: Final = 1
_MOST_USERS: Final = 10_000
"""Limit on the users of a store that were created over the protocol: all are in memory."""
_MAX_WAITING: Final = 64
"""Limit on the logins that wait for their password to be compared, 40 ms each."""


class IggyUsers:
    """The users of one store. Methods raise `IggyError`, and what the store raises.

    *configured* are those of the users file; None if there is none. *executor* compares passwords.
    """

    def __init__(
        self,
        registry: IggyRegistry,
        configured: Users | None,
        *,
        clock: Clock,
        random: Random,
        executor: Executor,
    ) -> None:
        self._registry = registry
        self._configured = configured
        self._clock = clock
        self._random = random
        self._executor = executor
        self._decoy = passwords.decoy_hash(random.randbytes(passwords.SALT_BYTES))
        self._comparing = asyncio.Lock()
        # logins that wait for the lock, or have it
        self._waiting = 0

    @property
    def needs_login(self) -> bool:
        """Whether there is a users file; a client that can't log in is root without one."""
        return self._configured is not None

    async def start(self) -> None:
        """Make the root user, if there is no users file; within no turn."""
        async with self._registry.turn() as state:
            if self._configured is None and ROOT_ID not in state.users:
                counters = replace(state.counters, last_user=max(1, state.counters.last_user))
                root = RegisteredUser(ROOT_ID, ROOT, self._now_us())
                puts: list[IggyPut] = [counters, UserPut(ROOT_ID, root)]
                if (other := state.user(ROOT)) is not None:  # made while there was a users file
                    puts.insert(0, UserPut(other.id, None))
                await self._registry.commit_puts(puts)

    # Logins --------------------------------------------------------------------------------------

    async def log_in(self, name: str, password: str) -> RegisteredUser:
        """Return the user with this login."""
        if self._configured is not None and self._configured.find(name) is not None:
            return await self._log_in_configured(self._configured, name, password)
        user = self.find(name)
        if not await self._matches(user, password) or user is None:
            raise IggyError(Reason.INVALID_CREDENTIALS, "the user or the password is wrong")
        if not user.active:
            raise IggyError(Reason.USER_INACTIVE, f"user {name!r} is not active")
        return user

    async def _log_in_configured(
        self, configured: Users, name: str, password: str
    ) -> RegisteredUser:
        login = base64.b64encode(f"{name}:{password}".encode()).decode()
        try:
            await configured.authenticate(f"Basic {login}")
        except UnknownUserError as error:
            raise IggyError(Reason.INVALID_CREDENTIALS, str(error)) from error
        return await self._register_configured(name)

    async def _register_configured(self, name: str) -> RegisteredUser:
        """Return a user of the users file, registered with a number."""
        if (user := self._registry.state.user(name)) is not None and user.configured:
            return user
        async with self._registry.turn() as state:
            # one of that name who was created over the protocol gives way to the file
            before = state.user(name)
            puts: list[IggyPut] = [] if before is None else [UserPut(before.id, None)]
            id_ = _next_id(state.counters)
            user = RegisteredUser(id_, name, self._now_us(), configured=True)
            puts += [replace(state.counters, last_user=id_), UserPut(id_, user)]
            await self._registry.commit_puts(puts)
            return user

    async def _matches(self, user: RegisteredUser | None, password: str) -> bool:
        if user is not None and user.password is None:
            return hmac.compare_digest(password.encode(), ROOT.encode())
        # for an unknown name compare a decoy: the time taken must not tell which names exist
        expected = self._decoy
        if user is not None and user.password is not None:
            expected = passwords.parse_hash(user.password)
        if self._waiting >= _MAX_WAITING:
            raise TransientError("too many logins wait to be checked: try again later")
        self._waiting += 1
        try:
            async with self._comparing:
                return await self._executor.run(expected.matches_password, password)
        finally:
            self._waiting -= 1

    # Asking --------------------------------------------------------------------------------------

    def find(self, user: Identifier) -> RegisteredUser | None:
        """Return a user who can log in now; None if there is none."""
        found = self._registry.state.user(user)
        return found if found is not None and self._exists(found) else None

    def all_users(self) -> list[RegisteredUser]:
        """Return all users who can log in now, by number."""
        users = self._registry.state.users
        return [users[id_] for id_ in sorted(users) if self._exists(users[id_])]

    def _exists(self, user: RegisteredUser) -> bool:
        """Return whether *user* is there with, or without, the users file as it is now."""
        if user.configured:
            return self._configured is not None and self._configured.find(user.name) is not None
        # the root without a users file is nobody where there is one
        return user.id != ROOT_ID or self._configured is None

    def permissions(self, user: RegisteredUser) -> Permissions | None:
        """Return a user's permissions as Iggy has them, grants among them; None: none."""
        if user.id == ROOT_ID:
            return ALL_PERMISSIONS
        if user.configured:
            found = self._configured.find(user.name) if self._configured is not None else None
            targets = _all_targets(self._registry.state)
            return permissions_of(found.grants, targets) if found is not None else None
        return user.permissions

    def permits(self, user_id: int, right: Right, target: RightTarget | None) -> bool:
        """Return whether a user has *right* on *target*; None: everywhere."""
        user = self.find(user_id)
        if user is None or not user.active:
            return False
        if user.configured:
            found = self._configured.find(user.name) if self._configured is not None else None
            return found is not None and grants_permit(found.grants, right, target)
        permissions = self.permissions(user)
        return permissions is not None and permits(permissions, right, target)

    # Changing ------------------------------------------------------------------------------------

    async def create(
        self, name: str, password: str, *, active: bool, permissions: Permissions | None
    ) -> RegisteredUser:
        """Create a user."""
        text = await self._hashed(password)
        async with self._registry.turn() as state:
            self._check_name_is_free(name)
            if len(state.users) >= _MOST_USERS:
                raise IggyError(Reason.TOO_MANY_USERS, f"there are {_MOST_USERS} users")
            id_ = _next_id(state.counters)
            user = RegisteredUser(id_, name, self._now_us(), text, active, permissions)
            puts: list[IggyPut] = [replace(state.counters, last_user=id_), UserPut(id_, user)]
            if (stale := state.user(name)) is not None:
                puts.insert(0, UserPut(stale.id, None))
            await self._registry.commit_puts(puts)
            return user

    async def delete(self, user: Identifier) -> int:
        """Delete a user, and return the number."""
        async with self._registry.turn():
            found = self._require(user)
            if found.id == ROOT_ID or found.configured:
                raise IggyError(Reason.CANNOT_DELETE_USER, f"user {found.name!r} is configured")
            await self._registry.commit_puts([UserPut(found.id, None)])
            return found.id

    async def update(self, user: Identifier, name: str | None, active: bool | None) -> None:
        """Change a user's name, or whether logins are possible; None: no change."""
        async with self._registry.turn():
            found = self._require(user)
            now = replace(
                found,
                name=found.name if name is None else name,
                active=found.active if active is None else active,
            )
            if now == found:
                return
            if found.id == ROOT_ID or found.configured:
                raise IggyError(
                    Reason.CANNOT_CHANGE_PERMISSIONS, f"user {found.name!r} is configured"
                )
            if now.name != found.name:
                self._check_name_is_free(now.name)
            await self._registry.commit_puts([UserPut(found.id, now)])

    async def set_permissions(self, user: Identifier, permissions: Permissions | None) -> None:
        """Replace a user's permissions."""
        async with self._registry.turn():
            found = self._require(user)
            if found.id == ROOT_ID or found.configured:
                raise IggyError(
                    Reason.CANNOT_CHANGE_PERMISSIONS, f"user {found.name!r} is configured"
                )
            now = replace(found, permissions=permissions)
            await self._registry.commit_puts([UserPut(found.id, now)])

    async def change_password(self, user: Identifier, current: str, new: str) -> None:
        """Replace a user's password, which is *current*."""
        found = self._require(user)
        if found.configured:
            raise IggyError(
                Reason.FEATURE_UNAVAILABLE, f"the password of {found.name!r} is in the users file"
            )
        if not await self._matches(found, current):
            raise IggyError(Reason.INVALID_CREDENTIALS, "the current password is wrong")
        text = await self._hashed(new)
        async with self._registry.turn():
            # meanwhile it may have been changed, or deleted
            now = self._require(found.id)
            if now.password != found.password:
                raise IggyError(Reason.INVALID_CREDENTIALS, "the password was changed meanwhile")
            await self._registry.commit_puts([UserPut(found.id, replace(now, password=text))])

    def _check_name_is_free(self, name: str) -> None:
        in_file = self._configured is not None and self._configured.find(name) is not None
        if in_file or self.find(name) is not None:
            raise IggyError(Reason.USER_EXISTS, f"user {name!r} exists")

    def _require(self, user: Identifier) -> RegisteredUser:
        if (found := self.find(user)) is None:
            raise IggyError(Reason.RESOURCE_NOT_FOUND, f"there is no user {user!r}")
        return found

    async def _hashed(self, password: str) -> str:
        salt = self._random.randbytes(passwords.SALT_BYTES)
        return str(await self._executor.run(passwords.hash_password, password, salt))

    def _now_us(self) -> int:
        return self._clock.now_ms() * 1000


def _all_targets(state: IggyState) -> Iterator[RightTarget]:
    """Yield all streams, each before its topics."""
    for scope, owner in state.streams.items():
        yield RightTarget(scope, owner.id)
        for name, topic in owner.topics.items():
            yield RightTarget(scope, owner.id, name, topic.id)


def _next_id(counters: CountersPut) -> int:
    return max(ROOT_ID, counters.last_user) + 1
