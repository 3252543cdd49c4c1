"""The inputs beside files that an agent has. What no table asks for is not even imported."""

import os
from dataclasses import dataclass, field
from typing import Any

from agent.config.config import AgentConfig
from agent.inputs.local.ports import LocalInputs
from agent.inputs.service import InputService
from agent.sources.input import Input
from agent.sources.queue import SendQueue
from agent.sources.registry import SourceRegistry
from logdrive.host.disk import Disk
from logdrive.host.host import Host

SPOOL_DIRECTORY = "spool"
"""The spool's name, in the state directory."""


@dataclass(slots=True)
class OtherInputs:
    """What reads them, and who is asked about each source."""

    services: list[InputService] = field(default_factory=list)
    """In the order in which they begin."""

    by_readable: dict[type, Input] = field(default_factory=dict)
    """By the class of their sources' `Readable`."""


def make_other_inputs(
    config: AgentConfig,
    registry: SourceRegistry,
    send_queue: SendQueue,
    *,
    host: Host,
    local: LocalInputs | None,
    log: Any,
) -> OtherInputs:
    """Return the inputs that *config* asks for, and one that sends what a spool still has."""
    inputs = OtherInputs()
    spool = os.path.join(config.agent.state_dir, SPOOL_DIRECTORY)
    if config.spooled or _exists(host.disk, spool):
        from agent.inputs.spool.assemble import make_spool_input
        from agent.inputs.spool.stream import SpooledStream

        spool_input = make_spool_input(
            config.spooled,
            spool,
            registry,
            send_queue,
            host=host,
            local=local or system_inputs(),
            log=log,
        )
        inputs.services.append(spool_input)
        inputs.by_readable[SpooledStream] = spool_input
    if config.journald is not None:
        from agent.inputs.journald.boot import JournalBoot
        from agent.inputs.journald.journal_input import JournalInput

        journal = JournalInput(
            config.journald,
            registry,
            send_queue,
            local=local or system_inputs(),
            clock=host.clock,
            log=log,
        )
        inputs.services.append(journal)
        inputs.by_readable[JournalBoot] = journal
    return inputs


def system_inputs() -> LocalInputs:
    """Return the real pipes, sockets and programs."""
    from agent.inputs.local.system import SystemInputs

    return SystemInputs()


def _exists(disk: Disk, path: str) -> bool:
    try:
        disk.stat(path)
    except OSError:
        return False
    return True
