"""Puts the spool, its channels and their readers together, as the configuration names them.

Imported only where something is spooled: the store's engine takes memory.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any, Final

from agent.config.spooled import PipeTable, SocketTable, SpooledTable, StdinTable, SyslogTable
from agent.inputs.local.ports import LocalInputs, LocalListener
from agent.inputs.spool.channel import SpoolChannel
from agent.inputs.spool.framing import LineFraming, SyslogFraming
from agent.inputs.spool.readers import BytesReader, ConnectionReader, DatagramReader, Reader
from agent.inputs.spool.spool import Spool
from agent.inputs.spool.spool_input import SpoolInput
from agent.sources.queue import SendQueue
from agent.sources.registry import SourceRegistry
from logdrive.host.host import Host
from logdrive.host.transport import Accept, ListenerLimits
from logdrive.model.units import MIB

_READS_BYTES: Final = 4 * MIB
"""Bytes that all connections of an input may bring before any of them waits for the disk."""


def make_spool_input(
    tables: Mapping[str, SpooledTable],
    directory: str,
    registry: SourceRegistry,
    send_queue: SendQueue,
    *,
    host: Host,
    local: LocalInputs,
    log: Any,
) -> SpoolInput:
    """Return the input of all spooled *tables*, by their keys; nothing is opened yet."""
    spool = Spool(directory, local, disk=host.disk, clock=host.clock, random=host.random)
    spool_input = SpoolInput(
        tables, spool, registry, send_queue, local=local, clock=host.clock, log=log
    )
    for channel in spool_input.channels:
        spool_input.add_reader(_make_reader(channel, host, local, log), channel)
    return spool_input


def _make_reader(channel: SpoolChannel, host: Host, local: LocalInputs, log: Any) -> Reader:
    match channel.table:
        case StdinTable():
            return BytesReader(local.open_stdin, channel)
        case PipeTable() as pipe:
            return BytesReader(partial(local.open_pipe, pipe.path, int(pipe.mode, 8)), channel)
        case SocketTable(kind="datagram") as table:
            bind = partial(local.bind_unix, table.path, int(table.mode, 8))
            return DatagramReader(bind, channel, table.message_bytes)
        case SocketTable() as table:
            listen = partial(
                local.listen_unix, table.path, int(table.mode, 8), limits=_limits(table)
            )
            framing = partial(LineFraming, table.message_bytes)
            return ConnectionReader(
                listen,
                channel,
                framing,
                connections=table.connections,
                idle_seconds=table.idle_seconds,
                clock=host.clock,
                log=log,
            )
        case SyslogTable(protocol="udp") as table:
            bind = partial(local.bind_udp, *table.address)
            return DatagramReader(bind, channel, table.message_bytes)
        case SyslogTable() as table:
            return ConnectionReader(
                partial(_listen_syslog, host, table),
                channel,
                partial(SyslogFraming, table.message_bytes),
                connections=table.connections,
                idle_seconds=table.idle_seconds,
                clock=host.clock,
                log=log,
            )
        case table:
            raise TypeError(f"no reader of {type(table).__name__}")


async def _listen_syslog(host: Host, table: SyslogTable, accept: Accept) -> LocalListener:
    tls = table.tls.settings() if table.tls is not None else None
    return await host.transport.listen(*table.address, tls, accept, _limits(table))


def _limits(table: SocketTable | SyslogTable) -> ListenerLimits:
    """Return the limits of a listener; those that it does not read are told and turned away."""
    return ListenerLimits(2 * table.connections, _READS_BYTES)
