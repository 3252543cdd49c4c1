"""Reports to the service manager: the agent's state, its figures, and that its event loop runs.

The watchdog is pinged from a task of the event loop. If that hangs, as in a read of a dead network
mount, the pings stop, and the manager starts the agent anew.
"""

from typing import Final

from agent.health import DRAINING, RUNNING, STARTING, AgentHealth
from logdrive.host.clock import Clock
from logdrive.host.service_manager import ServiceManager
from logdrive.model.units import MIB

_SECONDS: Final = 5.0
"""Longest time between two reports."""
_PINGS: Final = 3
"""Pings within the watchdog's time."""
_MORE_SECONDS: Final = 20.0
"""What each report during a start or a drain asks for, from then on."""


class ManagerReports:
    """Tells *manager* what `AgentHealth` knows. Call the `on_…` methods as the agent goes on."""

    def __init__(self, manager: ServiceManager, health: AgentHealth, clock: Clock) -> None:
        self._manager = manager
        self._health = health
        self._clock = clock

    async def run(self) -> None:
        """Report every few seconds, until cancelled; at once without a manager."""
        manager = self._manager
        if not manager.is_there:
            return
        watchdog = manager.watchdog_seconds
        seconds = min(_SECONDS, watchdog / _PINGS) if watchdog else _SECONDS
        while True:
            self._report()
            await self._clock.sleep(seconds)

    def _report(self) -> None:
        self._manager.ping()
        # many files take their time, and so does a drain: the manager waits while we say so
        if self._health.phase in (STARTING, DRAINING):
            self._manager.extend_timeout(_MORE_SECONDS)
        self._manager.show_status(describe(self._health))

    def on_starting(self) -> None:
        """Tell that the agent begins to look for its files."""
        self._report()

    def on_started(self) -> None:
        """Tell that the agent has found its files and delivers."""
        self._health.look()  # its files are known now
        self._manager.show_status(describe(self._health))
        self._manager.ready()

    def on_draining(self) -> None:
        """Tell that the agent ends as soon as it has delivered what is there."""
        self._manager.stopping()
        self._health.look_if_stale()
        self._report()


def describe(health: AgentHealth) -> str:
    """Return the agent's state in one line, for people."""
    connection, total = health.connection, health.total
    where = f"connected to {connection.host}" if connection.host else "not connected"
    if not connection.host and connection.problem:
        where = f"{where} ({connection.problem})"
    state = "" if health.phase == RUNNING else f"{health.phase}; "
    behind = (
        f"{total.behind:,} behind by {total.lag_bytes:,} bytes and {total.lag_seconds:.0f} s"
        if total.behind
        else "none behind"
    )
    rate = health.lag.total_rate / MIB
    return f"{state}{where}; {len(health.followed):,} files, {behind}; {rate:.1f} MiB/s"
