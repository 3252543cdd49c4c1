"""Attaches to the store of a `file://` address, so that a reader gets a host and a port.

If no process has the store open, it is opened here and served on a loopback port. If a process has,
its network face is found by the `endpoint.json` in the store's directory. So the same client serves
for both.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

from logdrive.address import StreamAddress, host_port
from logdrive.errors import ConfigError, Mistake, TransientError, os_error_text
from logdrive.host.disk import Disk
from logdrive.host.host import Host
from logdrive.host.transport import ClientTls, Transport
from logdrive.net.retry import retry_async, wait_fixed
from logdrive.services.auth.token_verifier import TokenVerifier, new_local_token
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.server import endpoint
from logdrive.services.pravega.server.segments.listen import serve_segment_store
from logdrive.store.engine import Store
from logdrive.store.errors import StoreInUseError
from logdrive.store.opening import LOCK_NAME
from logdrive.wire.pravega.names import streams_among

_LOOPBACK: Final = "127.0.0.1"
_START_SECONDS: Final = 5.0  # a process that has just taken the lock may not listen yet
_RETRY_SECONDS: Final = 0.1


class _NoFaceError(ConfigError):
    """Another process has the store open and can't be reached; it may still be starting."""


@contextlib.asynccontextmanager
async def attach_store(
    address: StreamAddress,
    *,
    host: Host,
    tls: ClientTls | None = None,
) -> AsyncIterator[Target]:
    """Yield the address at which the store listens inside the context.

    *host*.executor must have a single thread; *tls* is for a network face that asks for
    certificates. Waits up to 5 s for a process that has just locked the store to listen.

    Raises `ConfigError` if there is no store at the address, if another process has it open and
    serves no face that can be reached, or if the store that was opened here lacks the stream.
    """
    clock, disk = host.clock, host.disk
    _check_there(disk, address)

    async def open_or_find() -> Store | Target:
        try:
            return await Store.open(address.path, disk=disk, executor=host.executor, clock=clock)
        except StoreInUseError:
            pass  # its process serves it, or is about to
        return await _served_elsewhere(disk, address, host.transport, tls)

    deadline = clock.monotonic() + _START_SECONDS
    until_served = retry_async(
        _NoFaceError,
        sleep=clock.sleep,
        wait=wait_fixed(_RETRY_SECONDS),
        give_up=lambda _: clock.monotonic() >= deadline,
    )
    opened: Store | Target = await until_served(open_or_find)
    if isinstance(opened, Target):
        yield opened
        return

    # for whoever asked for it, not for all who are on this host
    verifier = TokenVerifier(new_local_token(host.random), clock)
    async with _served_here(opened, address, disk, host.transport, verifier) as target:
        yield target


def _check_there(disk: Disk, address: StreamAddress) -> None:
    """Refuse a directory without a store: opening it would create one."""
    try:
        exists = LOCK_NAME in disk.names(address.path)
    except PermissionError as error:
        remedy = (
            f"{address.path} can't be read ({os_error_text(error)}): run "
            "this as the user who owns the store"
        )
        raise ConfigError(address.uri, [Mistake("uri", "", remedy)]) from error
    except OSError:
        exists = False
    if not exists:
        remedy = (
            f"there is no store in {address.path}: start the receiver or `logdrive store run` "
            "that writes it, or correct the path"
        )
        raise ConfigError(address.uri, [Mistake("uri", "", remedy)])


def _check_stream(store: Store, address: StreamAddress) -> None:
    streams = streams_among(store.segments())
    if f"{address.scope}/{address.stream}" not in streams:
        # Names that begin with "_" are internal streams of the controller.
        own = [name for name in streams if not name.startswith("_")]
        hint = (
            f"there are: {', '.join(own)}" if own else "it has none yet: no agent has sent anything"
        )
        remedy = (
            f"there is no stream {address.scope}/{address.stream} in the store "
            f"{address.path}; {hint}"
        )
        raise ConfigError(address.uri, [Mistake("uri", "", remedy)])


@contextlib.asynccontextmanager
async def _served_here(
    store: Store, address: StreamAddress, disk: Disk, transport: Transport, verifier: TokenVerifier
) -> AsyncIterator[Target]:
    running = asyncio.create_task(store.run(asyncio.Event()), name="attached-store")
    try:
        _check_stream(store, address)
        async with serve_segment_store(
            store, _LOOPBACK, 0, None, transport=transport, disk=disk, verifier=verifier
        ) as (_, port):
            yield Target(_LOOPBACK, port, token=verifier.local_token)
    finally:
        await store.close()
        await running


async def _served_elsewhere(
    disk: Disk, address: StreamAddress, transport: Transport, tls: ClientTls | None
) -> Target:
    """Return where the process that has the lock listens.

    Raises `_NoFaceError` with what the operator is to do.
    """
    published = endpoint.read_endpoint(disk, address.path)
    if published is None:
        raise _no_face(address)
    if published.tls and tls is None:
        remedy = (
            f"the store's face at {published.pravega} asks for certificates: give --ca, --cert "
            "and --key"
        )
        raise _NoFaceError(address.uri, [Mistake("listen.pravega.tls", "", remedy)])
    target = Target(*host_port(published.pravega), tls if published.tls else None, published.token)
    try:
        stream = await transport.connect(target.host, target.port, target.tls)
    except TransientError as error:
        raise _no_face(address, f"; the one announced does not answer: {error}") from error
    await stream.close()
    return target


def _no_face(address: StreamAddress, more: str = "") -> _NoFaceError:
    remedy = (
        f"another process has the store in {address.path} open and serves no network "
        f"face{more}. Add the table "
        '[listen.pravega] with address = "127.0.0.1:6000" to its receiver.toml or '
        "store.toml and start it again, or stop it"
    )
    return _NoFaceError(address.uri, [Mistake("listen.pravega.address", "", remedy)])
