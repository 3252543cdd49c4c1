"""The segments of a stream for a command, wherever they are.

They are at the service that is named, at whoever serves the store, or here where nobody does.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import AbstractAsyncContextManager, AsyncExitStack, nullcontext
from typing import TypeVar

import click

from logdrive.address import ServiceAddress, StreamAddress, sink_address
from logdrive.cli.access import AccessOptions
from logdrive.cli.output import set_up_logging
from logdrive.cli.runtime import Machine
from logdrive.cli.runtime import run as run_program
from logdrive.services.embedded.attach import attached
from logdrive.services.pravega.client.blocking import Target
from logdrive.services.pravega.reader.segments import locate_segments, readable
from logdrive.services.pravega.reader.stream import Later, ReadableSegment
from logdrive.services.pravega.reader.token_renewal import renewed

T = TypeVar("T")
AnyAddress = StreamAddress | ServiceAddress


def address_of(uri: str) -> AnyAddress:
    """Return the address in *uri*. Raises `click.BadParameter`."""
    try:
        return sink_address(uri)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="URI") from error


def with_segments(
    address: AnyAddress,
    access: AccessOptions,
    ask: Callable[[Sequence[ReadableSegment], Later], Awaitable[T]],
    *,
    update: bool = False,
) -> T:
    """Return what *ask* returns of the stream's segments; *update*: it changes something."""

    async def program(machine: Machine) -> T:
        async with (
            reached(address, access, machine) as target,
            segments_at(address, target, machine, update=update) as (segments, later),
        ):
            return await unless_stopped(machine, ask(segments, later))

    set_up_logging("warning")
    return run_program(program)


def reached(
    address: AnyAddress, access: AccessOptions, machine: Machine
) -> AbstractAsyncContextManager[Target]:
    """Yield where the stream's service listens, for as long as the context lasts."""
    if isinstance(address, ServiceAddress):
        target = Target(address.host, address.port, access.tls, login=access.login)
        return nullcontext(target)
    return attached(
        address,
        disk=machine.disk,
        executor=machine.executor,
        clock=machine.clock,
        transport=machine.transport,
        tls=access.tls,
    )


@contextlib.asynccontextmanager
async def segments_at(
    address: AnyAddress, target: Target, machine: Machine, *, update: bool = False
) -> AsyncIterator[tuple[list[ReadableSegment], Later]]:
    """Yield the segments of a stream at *target*, and what finds later ones."""
    transport, scope, stream = machine.transport, address.scope, address.stream
    async with AsyncExitStack() as stack:
        there = await locate_segments(transport, target, scope, stream, update=update)
        renewing = renewed(target, there, clock=machine.clock, update=update)
        token = await stack.enter_async_context(renewing)

        async def later(known: AbstractSet[str]) -> list[ReadableSegment]:
            now = await locate_segments(transport, target, scope, stream, update=update)
            fresh = [one for one in now if one.state.segment not in known]
            return await stack.enter_async_context(readable(transport, fresh, token))

        yield await stack.enter_async_context(readable(transport, there, token)), later


async def unless_stopped(machine: Machine, work: Awaitable[T]) -> T:
    """Return what *work* does. Raises `click.Abort` where a signal comes first."""
    asked = asyncio.ensure_future(work)
    stopped = asyncio.ensure_future(machine.stop.wait())
    await asyncio.wait({asked, stopped}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    if not asked.done():
        asked.cancel()
        raise click.Abort
    return asked.result()
