"""From the [listen.auth] table to what checks logins and tokens.

PyJWT is imported only here, and only where there is such a table.
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
from logdrive.host.stamp import stamp_of
from logdrive.model.units import KIB
from logdrive.services.auth.config import AuthConfig
from logdrive.services.auth.gate import TokenVerifier, new_pass
from logdrive.services.auth.reload import follow
from logdrive.services.auth.users import Users, read_file, read_users

if TYPE_CHECKING:
    from logdrive.services.auth.tokens import TokenSigner

_SECRET_BYTES: Final = 64 * KIB


@dataclass(frozen=True, slots=True)
class Access:
    """Who may come in: *users* at the controller, *gate* at the segments' port, which *tokens* of
    the one open at the other.
    """

    users: Users
    tokens: "TokenSigner"
    gate: TokenVerifier


@contextlib.asynccontextmanager
async def open_access(
    config: AuthConfig | None,
    *,
    disk: Disk,
    clock: Clock,
    random: Random,
    executors: Callable[[str], Executor] = ThreadExecutor,
) -> AsyncIterator[Access | None]:
    """Yield what checks logins and tokens while the context lasts; None where nobody is asked.

    Raises `ConfigError`.

    Users that change in their file meanwhile change here, too.

    *executors* makes what compares passwords: 40 ms that neither the event loop nor the store's
    disk should wait for.
    """
    if config is None:
        yield None
        return
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
    secret = read_file(disk, "token_secret", config.token_secret, _SECRET_BYTES).strip()
    if len(secret) < LEAST_SECRET_BYTES:
        remedy = (
            f"it has {len(secret)} bytes, and {LEAST_SECRET_BYTES} are wanted: openssl rand "
            "-hex 64 > FILE makes one"
        )
        raise ConfigError("listen", [Mistake("token_secret", config.token_secret, remedy)])
    state, found = stamp_of(disk, config.users), read_users(disk, config.users)
    tokens = TokenSigner(secret, clock, int(config.token_seconds * 1000))
    executor = executors("logdrive-logins")
    users = Users(found, executor, random)
    following = asyncio.create_task(follow(users, config.users, state, disk), name="users")
    try:
        yield Access(users, tokens, TokenVerifier(new_pass(random), clock, tokens))
    finally:
        following.cancel()
        await asyncio.wait([following])
        executor.close()
    if not following.cancelled():
        following.result()
