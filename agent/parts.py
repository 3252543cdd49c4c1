"""The parts of an agent, made and joined. `Agent` starts and drains them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from agent.config.config import AgentConfig
from agent.delivery.connection import Connector
from agent.delivery.dialect import SessionServices
from agent.delivery.encoders import Encoders, packing_of
from agent.delivery.reader import SourceReader
from agent.inputs.files.deleted_files import DeletedFiles
from agent.inputs.files.file import Generation
from agent.inputs.files.globs import FileInputs
from agent.inputs.files.open_files import OpenFiles
from agent.inputs.files.restore import Restorer
from agent.inputs.files.scanner import Scanner
from agent.inputs.files.tail import Tailer
from agent.inputs.router import InputRouter
from agent.sources.checkpoint import CheckpointFile
from agent.sources.checkpointer import Checkpointer
from agent.sources.file_log import FileLog
from agent.sources.identity import Fingerprinter, machine_agent_id
from agent.sources.queue import SendQueue
from agent.sources.registry import SourceRegistry
from agent.summary import AgentSummary
from logdrive.errors import ConfigError, Mistake, os_error_text
from logdrive.host.disk import Disk
from logdrive.host.host import Host

_RESERVED_HANDLES: Final = 128
"""Handles that no file takes: for the connection, the checkpoint and the watches."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentParts:
    """The parts, in the order in which bytes go through them."""

    file_log: FileLog
    """Log lines of which each file may have one."""

    file_inputs: FileInputs
    """Which files to follow."""

    registry: SourceRegistry
    """All sources."""

    send_queue: SendQueue
    """Sources that need to register or have data to send."""

    encoders: Encoders
    """The encoder of each source."""

    tailer: Tailer
    """Follows files."""

    scanner: Scanner
    """Finds files that inputs match."""

    restorer: Restorer
    """Finds the files of the checkpoint's entries."""

    connection: Connector
    """Keeps the connection."""

    checkpoint_file: CheckpointFile
    """The checkpoint on the disk."""

    checkpointer: Checkpointer
    """Writes it."""

    summary: AgentSummary
    """Logs what was delivered."""


def make_parts(
    config: AgentConfig, *, host: Host, open_files: int, when_idle: Callable[[], None], log: Any
) -> AgentParts:
    """Make the parts of an agent; nothing is read, written or connected yet.

    Raises `ConfigError` if the agent has no id. The arguments are those of `Agent`.
    """
    file_log = FileLog(log, host.clock)

    # what is known of sources
    agent = resolve_agent_id(config, host.disk)
    host_name = config.agent.host or os.uname().nodename
    fingerprinter = Fingerprinter(agent, host_name, host.disk)
    file_inputs = FileInputs(config.input)
    registry = SourceRegistry(host_name, agent, file_inputs)
    send_queue = SendQueue()

    # from files to the receiver
    encoders = Encoders(agent, host_name, host.clock, packing_of(config.output))
    tailer = Tailer(
        registry,
        send_queue,
        fingerprinter=fingerprinter,
        disk=host.disk,
        clock=host.clock,
        encoder_of=encoders.encoder_for,
        open_files=OpenFiles(
            host.disk,
            host.clock,
            log,
            max_open_files=config.agent.max_open_files,
            close_idle_seconds=config.agent.close_idle_seconds,
            handles=open_files - min(_RESERVED_HANDLES, open_files // 2),
        ),
        deleted_files=DeletedFiles(config.agent.keep_removed_days, config.agent.keep_removed_bytes),
        log=log,
        file_log=file_log,
    )
    router = InputRouter({Generation: tailer})
    services = SessionServices(
        registry=registry,
        send_queue=send_queue,
        input=router,
        source_reader=SourceReader(router, host.clock, encoders.encoder_for),
        clock=host.clock,
        executor=host.executor,
        random=host.random,
        settings=config.output,
        log=log,
        file_log=file_log,
    )

    checkpoint_file = CheckpointFile(host.disk, config.agent.state_dir)
    return AgentParts(
        file_log=file_log,
        file_inputs=file_inputs,
        registry=registry,
        send_queue=send_queue,
        encoders=encoders,
        tailer=tailer,
        scanner=Scanner(
            file_inputs,
            registry,
            tailer,
            disk=host.disk,
            clock=host.clock,
            rescan_seconds=config.agent.rescan_seconds,
            file_log=file_log,
        ),
        restorer=Restorer(
            file_inputs, registry, tailer, fingerprinter, host.disk, host.clock, log, file_log
        ),
        connection=Connector(services, host.transport, encoders),
        checkpoint_file=checkpoint_file,
        checkpointer=Checkpointer(
            registry,
            checkpoint_file,
            clock=host.clock,
            executor=host.executor,
            keep_days=config.agent.keep_ended_days,
            log=log,
        ),
        summary=AgentSummary(registry, tailer.followed, host.clock, log, when_idle=when_idle),
    )


def resolve_agent_id(config: AgentConfig, disk: Disk) -> str:
    """Return the agent's id: the configured one, else one made from the machine id.

    Raises `ConfigError` if there is neither.
    """
    if config.agent.id is not None:
        return config.agent.id
    try:
        return machine_agent_id(disk)
    except OSError as error:
        remedy = (
            f"this machine has no id to make one from ({os_error_text(error)}): write one, "
            "different on each host"
        )
        raise ConfigError("agent", [Mistake("agent.id", "", remedy)]) from error
