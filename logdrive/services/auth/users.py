"""Users: the file with their names, password hashes and grants, and the check of logins.

[[user]]
name = "fleet"
password = "$scrypt$ln=14,r=8,p=1$…$…"
may = { "logs/*" = "READ_UPDATE" }
"""

import asyncio
import base64
import binascii
import hmac
from collections import OrderedDict
from dataclasses import dataclass, field
from random import Random
from typing import Annotated, Final

import msgspec

from logdrive.config.bounds import checked
from logdrive.config.load import parse_config as configuration
from logdrive.errors import ConfigError, LogdriveError, Mistake, TransientError, file_error_text
from logdrive.host.disk import Disk
from logdrive.host.executor import Executor
from logdrive.model.units import MIB
from logdrive.services.auth import passwords
from logdrive.services.auth.permissions import Grants, Permission

_FILE_BYTES: Final = 16 * MIB
"""Limit on the size of the users file."""
_CACHED_LOGINS: Final = 1024
_MAX_WAITING: Final = 64
"""Limit on the logins that wait for their password to be compared, 40 ms each."""
_LOGIN_CHARACTERS: Final = 4096
"""Limit on the length of a login in base64."""
_LEVELS: Final = {
    permission.name: permission for permission in (Permission.READ, Permission.READ_UPDATE)
}


class UserConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[user]] table; *may* has a permission for each pattern of streams."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern="^[^:]*$")]
    # a mistake does not show the value: it may be the password itself
    password: Annotated[str, checked(passwords.parse_hash)]
    may: dict[str, str]

    def __post_init__(self) -> None:
        """Refuse a malformed password hash, and malformed grants."""
        try:
            passwords.parse_hash(self.password)
        except ValueError as error:
            raise ValueError(f"password: {error}") from error
        for pattern, level in self.may.items():
            if level not in _LEVELS:
                raise ValueError(
                    f'may: {pattern!r} is given {level!r}: write "READ" or "READ_UPDATE"'
                )
        try:
            self.grants()
        except ValueError as error:
            raise ValueError(f"may: {error}") from error

    def grants(self) -> Grants:
        """Return the user's grants."""
        return Grants({pattern: _LEVELS[level] for pattern, level in self.may.items()})


class UsersConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole users.toml."""

    user: tuple[UserConfig, ...]

    def __post_init__(self) -> None:
        """Refuse two users with one name."""
        names = [user.name for user in self.user]
        if double := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"user: two are called {double!r}: leave one of them out")


class UnknownUserError(LogdriveError):
    """The login is missing, malformed or wrong."""


@dataclass(frozen=True, slots=True)
class User:
    """A user whose login was verified, and their grants."""

    name: str
    grants: Grants


class Users:
    """Checks logins against the users of *config*.

    *executor* compares passwords, one at a time. Logins that were right are cached, as every call
    brings one.
    """

    def __init__(self, config: UsersConfig, executor: Executor, random: Random) -> None:
        self._users = _by_name(config)
        self._decoy = passwords.decoy_hash(random.randbytes(passwords.SALT_BYTES))
        self._executor = executor
        # of the digests below: the cache holds no passwords
        self._digest_key = random.randbytes(32)
        # users by the digest of a login that was right, in the order in which they were compared
        self._cached: OrderedDict[bytes, _Entry] = OrderedDict()
        self._comparing = asyncio.Lock()
        # logins that wait for the lock, or have it
        self._waiting = 0

    async def authenticate(self, authorization: str | None) -> User:
        """Return the user who sent this `authorization` header.

        Raises `UnknownUserError`; `TransientError` where too many logins wait to be checked.
        """
        if authorization is None:
            raise UnknownUserError("this controller needs a user and a password")
        name, password = _parse_login(authorization)
        digest = hmac.digest(self._digest_key, authorization.encode(), "sha256")
        if (entry := self._cached.get(digest)) is not None:
            return entry.user

        if self._waiting >= _MAX_WAITING:
            raise TransientError("too many logins wait to be checked: try again later")
        self._waiting += 1
        try:
            async with self._comparing:
                # the same login may have been compared while this one waited
                entry = self._cached.get(digest) or await self._compare(name, password, digest)
                return entry.user
        finally:
            self._waiting -= 1

    def find(self, name: str) -> User | None:
        """Return the user called *name* as the file says now; None if there is none."""
        entry = self._users.get(name)
        return entry.user if entry is not None else None

    def replace_users(self, config: UsersConfig) -> None:
        """Check logins against *config* from now on; unchanged users are not compared again."""
        self._users = users = _by_name(config)
        self._cached = OrderedDict(
            (digest, entry)
            for digest, entry in self._cached.items()
            if users.get(entry.user.name) == entry
        )

    async def _compare(self, name: str, password: str, digest: bytes) -> "_Entry":
        # `replace_users` may come during the comparison: its result goes to the cache of before
        entry, cached = self._users.get(name), self._cached
        # for an unknown name compare a decoy: the time taken must not tell which names exist
        expected = self._decoy if entry is None else entry.password
        matches = await self._executor.run(expected.matches_password, password)
        if entry is None or not matches:
            raise UnknownUserError("the user or the password is wrong")

        cached[digest] = entry
        if len(cached) > _CACHED_LOGINS:
            cached.popitem(last=False)
        return entry


@dataclass(frozen=True, slots=True)
class _Entry:
    """A user as *config* describes them; two entries are equal if their *config* is."""

    config: UserConfig
    password: passwords.PasswordHash = field(compare=False)
    user: User = field(compare=False)


def _by_name(config: UsersConfig) -> dict[str, _Entry]:
    return {
        user.name: _Entry(user, passwords.parse_hash(user.password), User(user.name, user.grants()))
        for user in config.user
    }


def _parse_login(authorization: str) -> tuple[str, str]:
    """Return user and password of an `authorization` header. Raises `UnknownUserError`."""
    scheme, _, text = authorization.partition(" ")
    if scheme.lower() != "basic" or len(text) > _LOGIN_CHARACTERS:
        raise UnknownUserError(
            "this controller needs a user and a password: authorization: Basic …"
        )
    try:
        name, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = ""
    if not colon:
        raise UnknownUserError("authorization: Basic is not followed by user:password in base64")
    return name, password


def read_users(disk: Disk, path: str) -> UsersConfig:
    """Read the users file at *path*. Raises `ConfigError` with every mistake in it."""
    data = read_auth_file(disk, "users", path, _FILE_BYTES)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            path,
            [Mistake(f"byte {error.start}", "", "TOML is UTF-8: save the file in that encoding")],
        ) from error
    return configuration(path, text, UsersConfig)


def read_auth_file(disk: Disk, key: str, path: str, most: int) -> bytes:
    """Return the content of the file at *path*, which [listen.auth] names under *key*.

    Raises `ConfigError` where it can't be read, or is longer than *most* bytes.
    """
    try:
        file = disk.open(path)
        try:
            data = file.pread(most + 1, 0)
        finally:
            file.close()
    except OSError as error:
        raise ConfigError("listen", [Mistake(key, path, file_error_text(error))]) from error
    if len(data) > most:
        raise ConfigError(
            "listen",
            [Mistake(key, path, f"the file has more than {most} bytes: name the right one")],
        )
    return data
