"""The parts of an agent, made and joined. `Agent` starts and drains them."""

import os
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from agent.config.config import AgentConfig
from agent.config.output import OutputTable
from agent.delivery.certificate_watch import CertificateWatch
from agent.delivery.connection_encoders import ConnectionEncoders
from agent.delivery.delivery import Delivery
from agent.delivery.dialect import SessionServices
from agent.delivery.encoders import Encoders, packing_of
from agent.delivery.reader import SourceReader
from agent.delivery.spread import SourceSpread
from agent.events.processors.counters import RuleCounters
from agent.inputs.files.compressed.generation import CompressedGeneration
from agent.inputs.files.deleted_files import DeletedFiles
from agent.inputs.files.file import Generation
from agent.inputs.files.open_files import OpenFiles
from agent.inputs.files.paths.globs import FileInputs
from agent.inputs.files.rematch import Rematcher
from agent.inputs.files.restore import Restorer
from agent.inputs.files.scanner import Scanner
from agent.inputs.files.tail import Tailer
from agent.inputs.local.ports import LocalInputs
from agent.inputs.others import make_other_inputs
from agent.inputs.router import InputRouter
from agent.inputs.services import InputServices
from agent.sources.checkpoint.file import CheckpointFile
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

    rule_counters: RuleCounters
    """What processors did, of all inputs."""

    input_services: InputServices
    """The inputs beside the files."""

    tailer: Tailer
    """Follows files."""

    deleted_files: DeletedFiles
    """Limits how long deleted files are held open."""

    rematcher: Rematcher
    """Matches followed files with other inputs."""

    scanner: Scanner
    """Finds files that inputs match."""

    restorer: Restorer
    """Finds the files of the checkpoint's entries."""

    connection: Delivery
    """Keeps the connections."""

    certificates: CertificateWatch
    """Takes certificates that change on the disk."""

    checkpoint_file: CheckpointFile
    """The checkpoint on the disk."""

    checkpointer: Checkpointer
    """Writes it."""

    summary: AgentSummary
    """Logs what was delivered."""


def make_parts(
    config: AgentConfig,
    *,
    host: Host,
    local: LocalInputs | None,
    open_files: int,
    when_idle: Callable[[], None],
    log: Any,
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
    rule_counters = RuleCounters()

    def make_encoders(output: OutputTable) -> Encoders:
        packing = packing_of(output)
        return Encoders(agent, host_name, host.clock, packing, file_log, rule_counters)

    encoders = ConnectionEncoders(send_queue, make_encoders)
    deleted_files = DeletedFiles(config.agent.keep_removed_days, config.agent.keep_removed_bytes)
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
        deleted_files=deleted_files,
        inputs=file_inputs,
        log=log,
        file_log=file_log,
    )
    others = make_other_inputs(config, registry, send_queue, host=host, local=local, log=log)
    router = InputRouter({Generation: tailer, CompressedGeneration: tailer, **others.by_readable})
    make_services = partial(
        SessionServices,
        registry=registry,
        input=router,
        source_reader=SourceReader(router, host.clock, encoders.encoder_for),
        clock=host.clock,
        executor=host.executor,
        random=host.random,
        log=log,
        file_log=file_log,
    )
    connection = Delivery(
        config.output,
        make_services,
        send_queue=send_queue,
        spread=SourceSpread(registry, send_queue, encoders, host.clock),
        encoders=encoders,
        transport=host.transport,
        clock=host.clock,
    )

    checkpoint_file = CheckpointFile(host.disk, config.agent.state_dir)
    return AgentParts(
        file_log=file_log,
        file_inputs=file_inputs,
        registry=registry,
        send_queue=send_queue,
        rule_counters=rule_counters,
        input_services=InputServices(others.services, registry, alone=not config.input),
        tailer=tailer,
        deleted_files=deleted_files,
        rematcher=Rematcher(file_inputs, registry, tailer, send_queue, host.clock),
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
        connection=connection,
        certificates=CertificateWatch(
            lambda: connection.tls,
            lambda: connection.retire("certificates have changed"),
            disk=host.disk,
            clock=host.clock,
            log=log,
        ),
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
