"""`store ls` and `store cat` for a topic of Iggy. Its hash libraries are imported only here."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from logdrive.address import IggyAddress
from logdrive.cli.access import AccessOptions
from logdrive.cli.output import configure_logging
from logdrive.cli.printed_lines import print_lines
from logdrive.cli.runtime import Machine, run_program
from logdrive.cli.streams import abort_on_stop, no_such_stream
from logdrive.services.iggy.client.session import IggyClientSession
from logdrive.services.iggy.reader.connect import connect_service
from logdrive.services.iggy.reader.lines import count_partition, read_topic_lines
from logdrive.services.iggy.reader.polling import (
    Partition,
    partition_index,
    partition_states,
)
from logdrive.services.iggy.reader.stream import iggy_stream
from logdrive.services.lines import SegmentContents
from logdrive.services.reader import SegmentState
from logdrive.services.record_lines import OnFault
from logdrive.wire.iggy.errors import IggyError

T = TypeVar("T")


def count_iggy_topic(address: IggyAddress, access: AccessOptions) -> list[SegmentContents]:
    """Return the contents of the topic's partitions.

    Raises `UnavailableError` if there is no such topic.
    """
    stream, topic = address.scope, address.stream

    async def count(machine: Machine, service: IggyClientSession) -> list[SegmentContents]:
        return [
            await count_partition(
                service, Partition(stream, topic, partition_index(state.segment)), state
            )
            for state in await _existing_partitions(service, address)
        ]

    return _query(address, access, count)


def copy_iggy_lines(
    address: IggyAddress, access: AccessOptions, on_fault: OnFault, *, follow: bool
) -> None:
    """Write the lines of the topic to standard output; with *follow* for ever.

    Raises `UnavailableError` if there is no such topic.
    """

    async def copy(machine: Machine, service: IggyClientSession) -> None:
        await _existing_partitions(service, address)
        lines = read_topic_lines(
            service,
            address.scope,
            address.stream,
            follow=follow,
            sleep=machine.clock.sleep,
            on_fault=on_fault,
        )
        await print_lines(lines)

    _query(address, access, copy)


async def _existing_partitions(
    service: IggyClientSession, address: IggyAddress
) -> list[SegmentState]:
    """Return the states of the topic's partitions. Raises `UnavailableError` if there are none."""
    states = await partition_states(service, address.scope, address.stream)
    if not states:
        where = f"{address.scope}/{address.stream}"
        raise no_such_stream(address, f"there is no topic {where}, or it has no partitions")
    return states


def _query(
    address: IggyAddress,
    access: AccessOptions,
    ask: Callable[[Machine, IggyClientSession], Awaitable[T]],
) -> T:
    """Return the result of *ask*. Raises `click.Abort` on a stop signal, `ConfigError`."""
    reader = iggy_stream(address, access.tls, access.login)

    async def query(machine: Machine) -> T:
        try:
            async with connect_service(machine.transport, reader.target) as service:
                return await ask(machine, service)
        except IggyError as error:
            raise reader.refused(error, ("store", "URI"), " or with --user") from error

    async def program(machine: Machine) -> T:
        return await abort_on_stop(machine, asyncio.create_task(query(machine)))

    configure_logging("warning")
    return run_program(program)
