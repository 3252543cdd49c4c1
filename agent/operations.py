"""Operations: how operators reach a running agent, and what it tells them by itself.

The control socket, metrics and health, and the reports to the service manager.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

from agent.config.config import AgentConfig
from agent.control.changes import SourceChanges
from agent.control.desk import ControlDesk
from agent.control.server import serve_control
from agent.health import DRAINING, RUNNING, AgentHealth
from agent.manager_reports import ManagerReports
from agent.metrics.families import agent_families
from agent.metrics.server import HealthServer, serve_health
from agent.metrics.text import encode_families
from agent.parts import AgentParts
from logdrive.host.host import Host
from logdrive.host.service_manager import ServiceManager


class Operations:
    """All of it for one agent. With *listens* false there is no control socket: for tests."""

    def __init__(
        self,
        config: AgentConfig,
        parts: AgentParts,
        *,
        host: Host,
        manager: ServiceManager,
        listens: bool,
        log: Any,
    ) -> None:
        self._config = config
        self._host = host
        self._listens = listens
        self._log = log
        self.health = AgentHealth(
            parts.registry,
            parts.tailer.followed.values(),
            parts.connection,
            host.clock,
            config,
            parts.rule_counters,
        )
        changes = SourceChanges(
            parts.registry,
            parts.send_queue,
            tailer=parts.tailer,
            restorer=parts.restorer,
            rematcher=parts.rematcher,
            disk=host.disk,
            clock=host.clock,
            log=log,
        )
        self.desk = ControlDesk(self.health, changes, host.clock)
        self._reports = ManagerReports(manager, self.health, host.clock)
        self._server = HealthServer(
            lambda: encode_families(agent_families(self.health)),
            lambda: self.health.not_ready_because,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Answer and report inside the context.

        Raises `ConfigError` if the address of metrics can't be listened at. What the body raises
        comes in an `ExceptionGroup`.
        """
        control = self._config.control
        path = control.socket_path(self._config.agent.state_dir) if self._listens else ""
        async with (
            serve_health(control.metrics, self._server, self._host.transport),
            serve_control(path, self.desk.answer, self._log),
            asyncio.TaskGroup() as group,
        ):
            self._reports.on_starting()
            tasks = [
                group.create_task(self.health.run(), name="agent-health"),
                group.create_task(self._reports.run(), name="agent-reports"),
            ]
            try:
                yield
            finally:
                for task in tasks:
                    task.cancel()

    def on_started(self) -> None:
        """Note that the agent has found its files and delivers."""
        self.health.phase = RUNNING
        self._reports.on_started()

    def on_configured(self, config: AgentConfig) -> None:
        """Note that *config* holds from now on."""
        self.health.use_config(config)

    def on_draining(self) -> None:
        """Note that the agent ends as soon as it has delivered what is there."""
        self.health.phase = DRAINING
        self._reports.on_draining()
