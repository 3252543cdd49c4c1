"""Delivery: all connections of an agent, to one receiver or to several at once."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from agent.config.output import OutputTable
from agent.delivery.connection import Connector
from agent.delivery.connection_counts import ConnectionCounts
from agent.delivery.connection_encoders import ConnectionEncoders
from agent.delivery.dialect import SessionServices
from agent.delivery.session import SenderSession
from agent.delivery.spread import SourceSpread
from agent.failures import first_cause
from agent.sources.connection_queue import ConnectionQueue
from agent.sources.queue import SendQueue
from logdrive.host.clock import Clock
from logdrive.host.transport import Transport
from logdrive.net.settings import ClientTlsConfig

_TRIAL_SECONDS: Final = 30.0
"""A connection on trial that has had nothing to send for so long gets its share of sources."""

MakeServices = Callable[..., SessionServices]
"""Makes the services of a connection, given `send_queue`, `spread` and `settings`."""


@dataclass(frozen=True, slots=True)
class _Connection:
    """A connection that is made again and again."""

    connector: Connector
    queue: ConnectionQueue
    settings: OutputTable


class Delivery:
    """The connections that the [output] table asks for. Call `run` once.

    With `mode = "failover"` there is one, to a receiver of `hosts`; with "balance" there is one to
    each. Its members look at all of them.
    """

    def __init__(
        self,
        settings: OutputTable,
        make_services: MakeServices,
        *,
        send_queue: SendQueue,
        spread: SourceSpread,
        encoders: ConnectionEncoders,
        transport: Transport,
        clock: Clock,
        patient: bool = True,
    ) -> None:
        """Make the connections' parts; *make_services* makes what their sessions work with."""
        self._make_services = make_services
        self._send_queue = send_queue
        self._spread = spread
        self._encoders = encoders
        self._transport = transport
        self._clock = clock
        self._patient = patient
        self.counts = ConnectionCounts()
        """Connections made and failed; read-only outside of this folder."""
        # Set where `is_settled` or `problem` may have changed.
        self._changed = asyncio.Event()
        # The [output] table that holds.
        self._settings = settings
        # The connections there are to be.
        self._connections = [
            self._make(hosts, settings, reloaded=False) for hosts in _groups(settings)
        ]
        # The group of `run`, in which each connection has a task.
        self._group: asyncio.TaskGroup | None = None

    # What there is -------------------------------------------------------------------------------

    @property
    def connectors(self) -> list[Connector]:
        """The connector of each connection."""
        return [connection.connector for connection in self._connections]

    @property
    def sessions(self) -> list[SenderSession]:
        """The sessions on the connections that are made."""
        return [each.session for each in self.connectors if each.session is not None]

    @property
    def session(self) -> SenderSession | None:
        """The first of `sessions`."""
        return next(iter(self.sessions), None)

    @property
    def host(self) -> str:
        """The receivers that are connected to, as host:port with commas between; "" for none."""
        return ", ".join(each.host for each in self.connectors if each.host)

    @property
    def problem(self) -> str:
        """What went wrong last, for people; "" for nothing. Of several, each names its receiver."""
        failing = [each for each in self.connectors if each.problem]
        if len(self.connectors) == 1:
            return failing[0].problem if failing else ""
        return "; ".join(f"{each.hosts[0]}: {each.problem}" for each in failing)

    @property
    def is_settled(self) -> bool:
        """Whether no window is in flight and no answer awaited."""
        return all(session.is_settled for session in self.sessions)

    async def wait_for_change(self, seconds: float) -> None:
        """Wait, at most *seconds*, until a session has done all that it can do for now, or ends.

        Call it without awaiting anything between it and the look at what has to change.
        """
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()

    def note_change(self) -> None:
        """End `wait_for_change`."""
        self._changed.set()

    @property
    def tls(self) -> ClientTlsConfig | None:
        """The certificates that connections are made with."""
        return None if self._settings.tls == "off" else self._settings.tls

    # What is done --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep all connections until cancelled.

        Raises `ConfigError` for settings that can't be used, and `LogdriveError` if not *patient*.
        """
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                for connection in self._connections:
                    self._start(connection)
                # it does not end without connections: new settings may bring others
                while True:
                    await self._clock.sleep(_TRIAL_SECONDS)
                    self._spread.end_quiet_trials()
        except ExceptionGroup as failures:
            raise first_cause(failures) from failures
        finally:
            self._group = None

    def reload(self, settings: OutputTable) -> None:
        """Use other *settings*: connections that they change are ended with nothing in flight.

        Those to take their place are made at once; what *settings* leave as they were stays.
        """
        former, wanted = self._connections, _groups(settings)
        self._settings, self._connections = settings, []
        for connection in former:
            hosts = tuple(connection.connector.hosts)
            if hosts in wanted and _same_but_hosts(connection.settings, settings):
                wanted.remove(hosts)
                self._connections.append(connection)
            else:
                connection.connector.finish("other settings")
        self._connections += [self._make(hosts, settings, reloaded=True) for hosts in wanted]
        for connection in self._connections:
            if connection not in former:
                self._start(connection)
        self._changed.set()

    def retire(self, reason: str) -> None:
        """Make all connections anew, once nothing is in flight on the one that is replaced."""
        for connector in self.connectors:
            connector.retire(reason)

    def _make(self, hosts: Sequence[str], settings: OutputTable, *, reloaded: bool) -> _Connection:
        queue = self._send_queue.add_connection()
        encoders = self._encoders.add(queue.number, settings)
        services = self._make_services(send_queue=queue, spread=self._spread, settings=settings)
        connector = Connector(
            services,
            hosts,
            self._transport,
            encoders,
            counts=self.counts,
            changed=self._changed,
            patient=self._patient,
            reloaded=reloaded,
        )
        return _Connection(connector, queue, settings)

    def _start(self, connection: _Connection) -> None:
        if self._group is not None:
            self._group.create_task(self._keep(connection), name="agent-connector")

    async def _keep(self, connection: _Connection) -> None:
        """Keep a connection until it is to be made no more."""
        await connection.connector.run()
        self._spread.remove(connection.queue)


def _groups(settings: OutputTable) -> list[tuple[str, ...]]:
    """Return the hosts of each connection."""
    if settings.mode == "failover":
        return [tuple(settings.hosts)]
    return [(host,) for host in settings.hosts]


def _same_but_hosts(one: OutputTable, other: OutputTable) -> bool:
    """Return whether two tables differ in nothing but their receivers."""
    return replace(one, hosts=other.hosts, mode=other.mode) == other
