"""`store ls` and `store cat` for an S2 stream. Libraries for HTTP/2 are imported only here."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from logdrive.address import S2Address
from logdrive.cli.access import AccessOptions
from logdrive.cli.output import configure_logging
from logdrive.cli.printed_lines import print_lines
from logdrive.cli.runtime import Machine, run_program
from logdrive.cli.streams import abort_on_stop, no_such_stream
from logdrive.services.lines import SegmentContents
from logdrive.services.reader import SegmentState
from logdrive.services.record_lines import OnFault
from logdrive.services.s2.client.client import S2Client
from logdrive.services.s2.reader.headers import segment_state
from logdrive.services.s2.reader.lines import count_contents, read_lines
from logdrive.services.s2.reader.missing import missing_remedy, streams_instead
from logdrive.services.s2.reader.stream import s2_stream

T = TypeVar("T")


def count_s2_stream(address: S2Address, access: AccessOptions) -> list[SegmentContents]:
    """Return the contents of the stream, as of its only segment.

    Raises `UnavailableError` if there is no such stream.
    """

    async def count(client: S2Client, state: SegmentState) -> SegmentContents:
        return await count_contents(client, address.stream, state)

    return [_query(address, access, count)]


def copy_s2_lines(
    address: S2Address, access: AccessOptions, on_fault: OnFault, *, follow: bool
) -> None:
    """Write the lines of the stream to standard output; with *follow* for ever.

    Raises `UnavailableError` if there is no such stream.
    """

    async def copy(client: S2Client, state: SegmentState) -> None:
        await print_lines(
            read_lines(client, address.stream, state, follow=follow, on_fault=on_fault)
        )

    _query(address, access, copy)


def _query(
    address: S2Address,
    access: AccessOptions,
    ask: Callable[[S2Client, SegmentState], Awaitable[T]],
) -> T:
    """Return the result of *ask*. Raises `click.Abort` on a signal, `UnavailableError`."""
    stream = s2_stream(address.uri, access.tls, access.login, environ=os.environ)

    async def query(machine: Machine) -> T:
        async with S2Client(machine.transport, stream.target) as client:
            state = await segment_state(client, address.stream, stream.name)
            if state is None:
                instead = await streams_instead(client, address.stream)
                raise no_such_stream(address, missing_remedy(stream.name, instead))
            return await ask(client, state)

    async def program(machine: Machine) -> T:
        return await abort_on_stop(machine, asyncio.create_task(query(machine)))

    configure_logging("warning")
    return run_program(program)
