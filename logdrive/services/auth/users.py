"""Who may come in: the file with names, hashes of passwords and grants, and the checking of what a
client says.

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

from logdrive.config.load import parse_config as configuration
from logdrive.errors import ConfigError, LogdriveError, Mistake, TransientError, file_error_text
from logdrive.host.disk import Disk
from logdrive.host.executor import Executor
from logdrive.model.units import MIB
from logdrive.services.auth import passwords
from logdrive.services.auth.permissions import Grants, Permission

_FILE_BYTES: Final = 16 * MIB
_REMEMBERED: Final = 1024
_MOST_WAITING: Final = 64
_LOGIN_CHARACTERS: Final = 4096
_LEVELS: Final = {
    permission.name: permission for permission in (Permission.READ, Permission.READ_UPDATE)
}


class UserConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[user]] table. *may* has a permission for each pattern of streams."""

    name: Annotated[str, msgspec.Meta(min_length=1, max_length=255, pattern="^[^:]*$")]
    password: str
    may: dict[str, str]

    def __post_init__(self) -> None:
        """Refuse what is no hash of a password, and grants of nothing."""
        try:
            passwords.parsed(self.password)
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
        """Return what the user may do."""
        return Grants({pattern: _LEVELS[level] for pattern, level in self.may.items()})


class UsersConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A whole users.toml."""

    user: tuple[UserConfig, ...]

    def __post_init__(self) -> None:
        """Refuse two users of one name."""
        names = [user.name for user in self.user]
        if twice := next((name for name in names if names.count(name) > 1), None):
            raise ValueError(f"user: there are two called {twice!r}: leave one of them out")


class UnknownUserError(LogdriveError):
    """Whoever asks has not shown who they are."""


@dataclass(frozen=True, slots=True)
class User:
    """Somebody who has shown who they are, and what they may do."""

    name: str
    grants: Grants


class Users:
    """Checks logins.

    Hashes are compared one at a time by *executor*; what fitted is remembered, as every call brings
    its login.
    """

    def __init__(self, config: UsersConfig, executor: Executor, random: Random) -> None:
        self._users = _by_name(config)
        self._decoy = passwords.decoy(random.randbytes(passwords.SALT_BYTES))
        self._executor, self._key = executor, random.randbytes(32)
        self._known: OrderedDict[bytes, _Entry] = OrderedDict()
        self._comparing = asyncio.Lock()
        self._waiting = 0

    async def identified(self, authorization: str | None) -> User:
        """Return who sends this `authorization` header.

        Raises `UnknownUserError`, and `TransientError` where too many ask at once.
        """
        if authorization is None:
            raise UnknownUserError("say who you are: this controller wants a user and a password")
        name, password = _login(authorization)
        mark = hmac.digest(self._key, authorization.encode(), "sha256")
        if (known := self._known.get(mark)) is not None:
            return known.user
        if self._waiting >= _MOST_WAITING:
            raise TransientError("too many logins wait to be checked: try again later")
        self._waiting += 1
        try:
            async with self._comparing:
                known = self._known.get(mark) or await self._compared(name, password, mark)
                return known.user
        finally:
            self._waiting -= 1

    def replace(self, config: UsersConfig) -> None:
        """Take the users of *config* instead. Who is as before need not be compared again."""
        self._users = users = _by_name(config)
        self._known = OrderedDict(
            (mark, entry)
            for mark, entry in self._known.items()
            if users.get(entry.user.name) == entry
        )

    async def _compared(self, name: str, password: str, mark: bytes) -> "_Entry":
        entry, known = self._users.get(name), self._known
        kept = self._decoy if entry is None else entry.password
        # of a decoy, too: nobody learns from the time which names there are
        fits = await self._executor.run(kept.fits, password)
        if entry is None or not fits:
            raise UnknownUserError("the user or the password is wrong")
        known[mark] = entry  # in what is no longer looked at, where users were replaced meanwhile
        if len(known) > _REMEMBERED:
            known.popitem(last=False)
        return entry


@dataclass(frozen=True, slots=True)
class _Entry:
    """A user, and what *config*, by which two are compared, says of them."""

    config: UserConfig
    password: passwords.Password = field(compare=False)
    user: User = field(compare=False)


def _by_name(config: UsersConfig) -> dict[str, _Entry]:
    return {
        user.name: _Entry(user, passwords.parsed(user.password), User(user.name, user.grants()))
        for user in config.user
    }


def _login(authorization: str) -> tuple[str, str]:
    scheme, _, text = authorization.partition(" ")
    if scheme.lower() != "basic" or len(text) > _LOGIN_CHARACTERS:
        raise UnknownUserError(
            "this controller takes a user and a password: authorization: Basic …"
        )
    try:
        name, colon, password = base64.b64decode(text, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        colon = ""
    if not colon:
        raise UnknownUserError("authorization: Basic is not followed by user:password in base64")
    return name, password


def read_users(disk: Disk, path: str) -> UsersConfig:
    """Read the file at *path*. Raises `ConfigError` with every mistake in it."""
    data = read_file(disk, "users", path, _FILE_BYTES)
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise ConfigError(
            path,
            [Mistake(f"byte {error.start}", "", "TOML is UTF-8: save the file in that encoding")],
        ) from error
    return configuration(path, text, UsersConfig)


def read_file(disk: Disk, key: str, path: str, most: int) -> bytes:
    """Return what a file that [listen.auth] names under *key* holds. Raises `ConfigError`."""
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
