"""What `agent check` says of the inputs beside files. Nothing is opened or made."""

import os
import shutil
from collections.abc import AsyncIterator, Iterator

from agent.config.config import AgentConfig
from agent.config.journald import JournaldTable
from agent.config.spooled import PipeTable, SocketTable, SpooledTable, SyslogTable
from agent.inputs.check_ports import PortCheck
from agent.inputs.files.paths.pattern_check import join_paths
from agent.inputs.others import SPOOL_DIRECTORY
from agent.sources.checkpoint.file import Checkpoint
from agent.sources.paths import path_from_text
from agent.sources.readable import InputKind
from logdrive.check import Finding
from logdrive.errors import file_error_text
from logdrive.host.disk import Disk


async def check_other_inputs(
    config: AgentConfig, checkpoint: Checkpoint | None, disk: Disk, ports: PortCheck
) -> AsyncIterator[Finding]:
    """Yield a finding for each table of another input than files, for what the checkpoint has of
    others, and for the spool.
    """
    for key, table in config.tables():
        if isinstance(table, SpooledTable):
            yield await _check_spooled(key, table, disk, ports)
        elif isinstance(table, JournaldTable):
            yield _check_journald(key, table, checkpoint, disk)
    for finding in _check_entries(config, checkpoint):
        yield finding
    spool = os.path.join(config.agent.state_dir, SPOOL_DIRECTORY)
    try:
        size = sum(disk.stat(os.path.join(spool, name)).size for name in disk.names(spool))
    except FileNotFoundError:
        return
    except OSError as error:
        yield Finding("spool", ok=False, detail=f"{spool} can't be read: {file_error_text(error)}")
        return
    yield Finding("spool", ok=True, detail=f"{spool} takes {size:,} bytes of the disk")


async def _check_spooled(key: str, table: SpooledTable, disk: Disk, ports: PortCheck) -> Finding:
    """Check the place that programs would write to."""
    kept = f"up to {table.spool_bytes:,} bytes wait in the spool"
    match table:
        case SyslogTable():
            return await ports.check_syslog(key, table, kept)
        case PipeTable() | SocketTable():
            return _check_path(key, table.path, kept, disk)
    return Finding(key, ok=True, detail=f"it would be read to its end; {kept}")


def _check_path(key: str, path: str, kept: str, disk: Disk) -> Finding:
    directory = os.path.dirname(path)
    try:
        if disk.stat(path).is_file:
            detail = f"{path} is a file: read it as [[input]], or remove it"
            return Finding(key, ok=False, detail=detail)
    except FileNotFoundError:
        try:
            disk.stat(directory)
            disk.try_directory(directory)
        except OSError as error:
            detail = f"{path} can't be made ({file_error_text(error)}): make its directory"
            return Finding(key, ok=False, detail=detail)
        return Finding(key, ok=True, detail=f"{path} would be made; {kept}")
    except OSError as error:
        return Finding(key, ok=False, detail=f"{path} can't be used: {file_error_text(error)}")
    return Finding(key, ok=True, detail=f"{path} is there; {kept}")


def _check_journald(
    key: str, table: JournaldTable, checkpoint: Checkpoint | None, disk: Disk
) -> Finding:
    """Check the program that would read the journal, and the journal's directory."""
    program = shutil.which(table.journalctl)
    if program is None:
        detail = f"there is no program {table.journalctl}: install systemd, or name it"
        return Finding(key, ok=False, detail=detail)
    try:
        if table.directory is not None:
            disk.names(table.directory)
    except OSError as error:
        detail = f"{table.directory} can't be read: {file_error_text(error)}"
        return Finding(key, ok=False, detail=detail)

    entries = checkpoint.entries if checkpoint is not None else []
    boots = sum(entry.input == InputKind.JOURNALD.value and entry.done is None for entry in entries)
    plan = "after what was acknowledged" if boots else f"from the {table.start}"
    return Finding(key, ok=True, detail=f"{program} would read it {plan}")


def _check_entries(config: AgentConfig, checkpoint: Checkpoint | None) -> Iterator[Finding]:
    """Warn of the checkpoint's sources whose input is no more in the configuration."""
    entries = checkpoint.entries if checkpoint is not None else []
    living = [entry for entry in entries if entry.done is None and entry.ended is None]
    named = {table.name for table in config.spooled.values()}
    spooled = [
        path
        for path in (path_from_text(e.path) for e in living if e.input == InputKind.SPOOL.value)
        if path not in named
    ]
    if spooled:
        detail = (
            f"it has {join_paths(spooled)}, which no table names now: what the spool has of them "
            "is sent, and they end"
        )
        yield Finding("checkpoint", ok=True, detail=detail, warn=True)
    boots = [e.path for e in living if e.input == InputKind.JOURNALD.value]
    if boots and config.journald is None:
        detail = (
            f"it has {join_paths(boots)}, and there is no [journald] now: they stay in it, but "
            "are not read"
        )
        yield Finding("checkpoint", ok=True, detail=detail, warn=True)
