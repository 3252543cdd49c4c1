"""What `agent check` says of the ports that a start would listen at: each is bound for a moment.

A running agent has its ports itself. So a port that is in use is no fault while an agent runs with
the state directory: it may be that agent's.
"""

import errno
from collections.abc import Awaitable, Callable
from typing import Final

from agent.config.control import DEFAULT_METRICS_PORT, ControlTable
from agent.config.spooled import SyslogTable
from agent.inputs.local.ports import LocalInputs
from agent.inputs.others import system_inputs
from logdrive.address import host_port
from logdrive.check import Finding
from logdrive.errors import ConfigError
from logdrive.host.transport import ByteStream, ServerTls, Transport

_IN_USE: Final = (
    "{} is in use: if not by the agent that runs with this state_dir, a start would fail"
)


class PortCheck:
    """Tries ports; *runs* says that an agent runs with the state directory."""

    def __init__(self, transport: Transport, local: LocalInputs | None, *, runs: bool) -> None:
        """Bind those of UDP by *local*, by default the real sockets."""
        self._transport = transport
        self._local = local
        self._runs = runs

    async def check_syslog(self, key: str, table: SyslogTable, kept: str) -> Finding:
        """Try the port of a [[syslog]] table; *kept* says what the spool takes of it."""
        host, port = table.address
        where = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"

        async def bind() -> None:
            if table.protocol == "udp":
                (self._local or system_inputs()).bind_udp(host, port).close()
            else:
                await self._listen(host, port, table.tls.settings() if table.tls else None)

        free = f"it would listen at {where}, {table.protocol}; {kept}"
        return await self._try(key, f"{key}.listen", free, bind)

    async def check_metrics(self, table: ControlTable) -> list[Finding]:
        """Try the port of metrics and health, if there is one."""
        if not table.metrics:
            return []

        async def bind() -> None:
            await self._listen(*host_port(table.metrics, DEFAULT_METRICS_PORT), None)

        key = "control.metrics"
        return [await self._try(key, key, f"{table.metrics} is free", bind)]

    async def _listen(self, host: str, port: int, tls: ServerTls | None) -> None:
        await (await self._transport.listen(host, port, tls, _turn_away)).close()

    async def _try(
        self, name: str, key: str, free: str, bind: Callable[[], Awaitable[None]]
    ) -> Finding:
        """Return what *bind* finds: *free* as the detail of *name*, or what is wrong with *key*."""
        try:
            await bind()
        except ConfigError as error:
            (mistake,) = error.mistakes
            if error.file == "tls":
                key = f"{name}.tls.{mistake.key}"
            cause = error.__cause__
            in_use = isinstance(cause, OSError) and cause.errno == errno.EADDRINUSE
            if in_use and self._runs:
                return Finding(name, ok=True, detail=_IN_USE.format(mistake.value))
            return Finding(key, ok=False, detail=f"{mistake.value}: {mistake.remedy}")
        return Finding(name, ok=True, detail=free)


async def _turn_away(stream: ByteStream) -> None:
    stream.abort()
