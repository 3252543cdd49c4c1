"""`open_access`: from the [listen.auth] table to what checks logins and tokens.

PyJWT is imported only here, and only where the table is given.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Final

from logdrive.errors import ConfigError, Mistake
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk
from logdrive.host.executor import Executor, ThreadExecutor
from logdrive.host.file_stamp import read_stamp
from logdrive.model.units import KIB
from logdrive.services.auth.config import AuthConfig
from logdrive.services.auth.reload import reload_users
from logdrive.services.auth.token_verifier import TokenVerifier, new_local_token
from logdrive.services.auth.users import Users, read_auth_file, read_users

if TYPE_CHECKING:
    from logdrive.services.auth.tokens import TokenSigner

_SECRET_BYTES: Final = 64 * KIB
"""Limit on the size of the file with the token secret."""


@dataclass(frozen=True, slots=True)
class Access:
    """What checks clients: *users* their logins, *verifier* the tokens that *signer* signed."""

    users: Users
    signer: "TokenSigner"
    verifier: TokenVerifier


@contextlib.asynccontextmanager
async def open_access(
    config: AuthConfig | None,
    *,
    disk: Disk,
    clock: Clock,
    random: Random,
    executors: Callable[[str], Executor] = ThreadExecutor,
) -> AsyncIterator[Access | None]:
    """Yield what checks logins and tokens; None without *config*: then nothing is checked.

    While the context is open, the users are reloaded when their file changes. *executors* makes,
    from a name, the executor that compares passwords: 40 ms each, for which neither the event loop
    nor the store's disk should wait. Raises `ConfigError`.
    """
    if config is None:
        yield None
        return

    signer = _token_signer(config, disk, clock)
    # stamped before it is read: a change in between is seen as one
    stamp, users_config = read_stamp(disk, config.users), read_users(disk, config.users)
    executor = executors("logdrive-logins")
    users = Users(users_config, executor, random)
    reloading = asyncio.create_task(reload_users(users, config.users, stamp, disk), name="users")
    try:
        yield Access(users, signer, TokenVerifier(new_local_token(random), clock, signer))
    finally:
        reloading.cancel()
        await asyncio.wait([reloading])
        executor.close()
    # it never ends by itself: raise what ended it
    if not reloading.cancelled():
        reloading.result()


def _token_signer(config: AuthConfig, disk: Disk, clock: Clock) -> "TokenSigner":
    """Return the signer with the secret of *config*. Raises `ConfigError`."""
    try:
        from logdrive.services.auth.tokens import LEAST_SECRET_BYTES, TokenSigner
    except ImportError as error:
        remedy = (
            f"tokens need PyJWT, and {error.name} is not installed: pip install "
            "'logdrive[pravega]', or leave the table out"
        )
        raise ConfigError(
            "listen", [Mistake("token_secret", config.token_secret, remedy)]
        ) from error

    secret = read_auth_file(disk, "token_secret", config.token_secret, _SECRET_BYTES).strip()
    if len(secret) < LEAST_SECRET_BYTES:
        remedy = (
            f"it has {len(secret)} bytes, and at least {LEAST_SECRET_BYTES} are needed: openssl "
            "rand -hex 64 > FILE makes one"
        )
        raise ConfigError("listen", [Mistake("token_secret", config.token_secret, remedy)])
    return TokenSigner(secret, clock, int(config.token_seconds * 1000))
