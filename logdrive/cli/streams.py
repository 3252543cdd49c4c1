"""Connects a command to the segments of a stream.

A `pravega://` address names the service. A `file://` address names a store: if a process serves it,
the command connects to that process, else it opens the store itself. `s2_streams.py` and
`iggy_streams.py` have what there is for `s2://` and `iggy://` addresses.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import TypeVar

import click

from logdrive.address import (
    AnyAddress,
    IggyAddress,
    S2Address,
    ServiceAddress,
    StreamAddress,
    sink_address,
)
from logdrive.cli.access import AccessOptions
from logdrive.cli.output import configure_logging
from logdrive.cli.runtime import Machine, run_program
from logdrive.errors import Mistake, UnavailableError
from logdrive.services.embedded.attach import attach_store
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.reader.segments import connect_segments, locate_segments
from logdrive.services.pravega.reader.stream import FindNewSegments, ReadableSegment
from logdrive.services.pravega.reader.token_renewal import renew_tokens

T = TypeVar("T")


def parse_stream_address(uri: str) -> AnyAddress:
    """Return the parsed address *uri*. Raises `click.BadParameter`."""
    try:
        return sink_address(uri)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="URI") from error


def parse_segmented_address(uri: str) -> StreamAddress | ServiceAddress:
    """Return the parsed address *uri*, for a command that S2 and Iggy have nothing for.

    Raises `click.BadParameter`.
    """
    address = parse_stream_address(uri)
    if isinstance(address, S2Address | IggyAddress):
        protocol, scheme = ("S2", "s2") if isinstance(address, S2Address) else ("Iggy", "iggy")
        raise click.BadParameter(
            f"this command does not work over {protocol}: give the pravega:// or file:// address "
            "of the stream, if it is in a store of logdrive; `store ls` and `store cat` take "
            f"{scheme}://",
            param_hint="URI",
        )
    return address


def no_such_stream(address: AnyAddress, remedy: str = "") -> UnavailableError:
    """Return the error of a command whose stream is not there; *remedy* may say more."""
    remedy = remedy or f"there is no stream {address.scope}/{address.stream}"
    return UnavailableError("store", [Mistake("URI", address.uri, remedy)])


def query_segments(
    address: StreamAddress | ServiceAddress,
    access: AccessOptions,
    ask: Callable[[Sequence[ReadableSegment], FindNewSegments], Awaitable[T]],
    *,
    update: bool = False,
) -> T:
    """Connect to the segments of the stream at *address* and return the result of *ask*.

    *ask* gets the segments that exist now, and a function that finds later ones. With *update* it
    may change them. Raises `click.Abort` on a stop signal.
    """

    async def program(machine: Machine) -> T:
        async with (
            open_service(address, access, machine) as target,
            open_segments(address, target, machine, update=update) as (segments, later),
        ):
            return await abort_on_stop(machine, ask(segments, later))

    configure_logging("warning")
    return run_program(program)


def open_service(
    address: StreamAddress | ServiceAddress, access: AccessOptions, machine: Machine
) -> AbstractAsyncContextManager[Target]:
    """Yield the network address of the service that has the stream; it is open inside the context.

    If no process serves the store at a `file://` address, this process does so meanwhile.
    """
    if isinstance(address, ServiceAddress):
        target = Target(address.host, address.port, access.tls, login=access.login)
        return nullcontext(target)
    return attach_store(
        address,
        host=machine,
        tls=access.tls,
    )


@contextlib.asynccontextmanager
async def open_segments(
    address: StreamAddress | ServiceAddress,
    target: Target,
    machine: Machine,
    *,
    update: bool = False,
) -> AsyncIterator[tuple[list[ReadableSegment], FindNewSegments]]:
    """Yield the segments of a stream at *target*, and a function that finds later ones.

    The connections are open inside the context, and their tokens are renewed. *update* asks for
    permission to change the segments.
    """
    transport, scope, stream = machine.transport, address.scope, address.stream
    async with AsyncExitStack() as stack:
        locations = await locate_segments(transport, target, scope, stream, update=update)
        renewing = renew_tokens(target, locations, clock=machine.clock, update=update)
        token = await stack.enter_async_context(renewing)

        async def later(known: AbstractSet[str]) -> list[ReadableSegment]:
            latest = await locate_segments(transport, target, scope, stream, update=update)
            # those that are known have their connections
            fresh = [located for located in latest if located.state.segment not in known]
            return await stack.enter_async_context(connect_segments(transport, fresh, token))

        yield await stack.enter_async_context(connect_segments(transport, locations, token)), later


async def abort_on_stop(machine: Machine, work: Awaitable[T]) -> T:
    """Return the result of *work*. Cancels it and raises `click.Abort` on a stop signal."""
    working = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(machine.stop.wait())
    await asyncio.wait({working, stopped}, return_when=asyncio.FIRST_COMPLETED)

    stopped.cancel()
    if not working.done():
        working.cancel()
        raise click.Abort
    return working.result()
