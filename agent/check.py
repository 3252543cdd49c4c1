"""`logdrive agent check`: reports what a start of the agent would find and do.

It reads only the first lines of files, connects to each receiver without sending events, binds each
port for a moment, and changes no file.
"""

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.config.agent_table import LOCK_NAME, STATE_DIR_REMEDY
from agent.config.config import AgentConfig
from agent.config.files import InputTable
from agent.delivery.check_certificates import check_certificates
from agent.delivery.check_receiver import check_receiver
from agent.inputs.check_others import check_other_inputs
from agent.inputs.check_ports import PortCheck
from agent.inputs.files.copies.settled import stamp_of
from agent.inputs.files.paths.globs import DirectoryListing, FileInputs, MatchedFile
from agent.inputs.files.paths.pattern_check import check_patterns, why_no_match
from agent.inputs.files.paths.suffixes import suffix_of
from agent.inputs.files.taken_positions import TakenPositions
from agent.inputs.local.ports import LocalInputs
from agent.parts import resolve_agent_id
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.checkpoint.file import Checkpoint, CheckpointDamagedError, CheckpointFile
from agent.sources.identity import FirstLine
from agent.sources.paths import path_from_text, printable_path
from agent.sources.place import FileKey
from logdrive.check import Finding
from logdrive.errors import (
    ConfigError,
    StorageError,
    file_error_text,
    os_error_text,
)
from logdrive.host.clock import Clock, SystemClock
from logdrive.host.disk import Disk
from logdrive.host.transport import Transport
from logdrive.model.limits import FIRST_LINE_BYTES
from logdrive.model.numbers import position_of

_UNREADABLE = "can't be read"


@dataclass(frozen=True, slots=True)
class CheckedFile:
    """A file that an input matches."""

    path: str
    """The path that matches."""

    input: int
    """Index of the input in the configuration, from 0."""

    size: int
    """The file's size in bytes."""

    plan: str
    """From where it would be read, or why it would not be."""

    names: list[str] = field(default_factory=list)
    """Other paths that match it, links to it: it is read once."""


@dataclass(frozen=True, slots=True)
class AgentCheckReport:
    """The result of a check."""

    files: list[CheckedFile]
    """All files that the inputs match."""

    findings: list[Finding]
    """What is right and wrong with the rest, in the order of the configuration."""


async def check_agent(
    config: AgentConfig,
    *,
    disk: Disk,
    transport: Transport,
    local: LocalInputs | None = None,
    clock: Clock | None = None,
) -> AgentCheckReport:
    """Check files, checkpoint, ports and receivers.

    *local* binds what this host's programs write into, by default the real sockets; *clock* is by
    default this host's. Raises
    `ConfigError` if the agent would have no id.
    """
    checkpoint, finding = _check_checkpoint(config, disk)
    taken, taken_findings = _check_taken(config, checkpoint, disk)
    listing = DirectoryListing(disk)
    inputs = FileInputs(config.input)
    matches = list(inputs.scan_files(listing))
    named = _group_by_file(matches)
    files = [_check_file(config, names, checkpoint, taken, disk) for names in named]
    runs = _is_running(config.agent.state_dir, disk)
    findings = [
        _check_state_dir(config.agent.state_dir, disk, runs=runs),
        *_check_control_socket(config.control.socket, disk),
        finding,
        *taken_findings,
    ]

    # directories and inputs
    findings += [
        _check_directory(path, error)
        for path, error in sorted({**listing.errors, **listing.forbidden}.items())
    ]
    findings += [
        _check_input_without_files(f"input[{number}]", table, files, listing, disk)
        for number, table in enumerate(config.input)
        if not any(names[0].settings is table for names in named)
    ]

    # other inputs, and ports
    ports = PortCheck(transport, local, runs=runs)
    findings += [each async for each in check_other_inputs(config, checkpoint, disk, ports)]
    findings += await ports.check_metrics(config.control)

    # files
    findings += _count_unreadable(files)
    findings += [
        Finding(name, ok=True, detail=text, warn=True)
        for name, text in check_patterns(matches, inputs, checkpoint, listing)
    ]
    if config.output.tls != "off":
        findings += check_certificates(config.output.tls, disk, clock or SystemClock())
    return AgentCheckReport(
        files,
        findings
        + await asyncio.gather(
            *(check_receiver(config, host, transport) for host in config.output.hosts)
        ),
    )


def _count_unreadable(files: list[CheckedFile]) -> list[Finding]:
    """Return a warning if some of *files* can't be read."""
    unreadable = sum(file.plan.startswith(_UNREADABLE) for file in files)
    if not unreadable:
        return []
    detail = (
        f"{unreadable:,} of {len(files):,} can't be read (see above): run the agent as a user who "
        "may, or exclude them"
    )
    return [Finding("files", ok=True, detail=detail, warn=True)]


def _check_directory(path: str, error: OSError) -> Finding:
    """Return what is wrong with a directory; one that is not there may come yet."""
    detail = f"{path}: {os_error_text(error)}"
    if not isinstance(error, FileNotFoundError):
        return Finding("directory", ok=False, detail=detail)
    return Finding("directory", ok=True, detail=f"{detail}: it is found once it is", warn=True)


def _check_input_without_files(
    name: str, table: InputTable, files: list[CheckedFile], listing: DirectoryListing, disk: Disk
) -> Finding:
    """Return why an input has no file: none is there yet, or others have those that it matches."""
    alone = {printable_path(path) for path, _ in FileInputs([table]).scan_paths(listing)}
    others = [file for file in files if not alone.isdisjoint((file.path, *file.names))]
    owners = sorted({file.input for file in others})
    if not owners:
        if mistake := why_no_match(table.paths, disk):
            return Finding(name, ok=False, detail=f"no file matches its paths{mistake}")
        detail = "no file matches its paths now: those that come later are found then"
        return Finding(name, ok=True, detail=detail, warn=True)
    names = ", ".join(f"input[{owner}]" for owner in owners)
    return Finding(
        name,
        ok=False,
        detail=f"{names} has all {len(others):,} files that match its paths, as a file belongs to "
        "the first input that matches it: write this one before",
    )


def _is_running(state_dir: str, disk: Disk) -> bool:
    """Return whether an agent runs with *state_dir*, as far as its lock can be tried."""
    lock = os.path.join(state_dir, LOCK_NAME)
    try:
        disk.stat(lock)  # to lock it would make it
        with disk.lock(lock):
            return False
    except OSError as error:
        return isinstance(error, BlockingIOError)


def _check_state_dir(path: str, disk: Disk, *, runs: bool) -> Finding:
    """Check that a start could create the state directory and write to it."""
    try:
        disk.try_directory(path)
    except OSError as error:
        detail = f"{path} can't be used ({file_error_text(error)}): {STATE_DIR_REMEDY}"
        return Finding("agent.state_dir", ok=False, detail=detail)
    running = "; an agent runs with it now" if runs else ""
    return Finding("agent.state_dir", ok=True, detail=f"{path} can be written{running}")


def _check_control_socket(path: str | None, disk: Disk) -> list[Finding]:
    """Return a warning if the control socket can't be made: the agent would go on without it."""
    if not path:  # none, or in the state directory
        return []
    directory = os.path.dirname(path)
    try:
        disk.stat(directory)
        disk.try_directory(directory)
    except OSError as error:
        detail = (
            f"{path} can't be made ({file_error_text(error)}): make its directory, which the "
            "agent's user may write to, or `agent status` and `agent source` can't ask this agent"
        )
        return [Finding("control.socket", ok=True, detail=detail, warn=True)]
    return []


def _check_checkpoint(config: AgentConfig, disk: Disk) -> tuple[Checkpoint | None, Finding]:
    file = CheckpointFile(disk, config.agent.state_dir)
    try:
        checkpoint = file.load_checkpoint(resolve_agent_id(config, disk), touch=False)
    except CheckpointDamagedError as error:
        # an empty checkpoint if the agent wrote it: all that is known is that it ran before
        remains = Checkpoint(agent="") if error.ours else None
        return remains, Finding(
            "checkpoint",
            ok=False,
            detail=f"{file.path}: {error}; the agent would start as without one",
        )
    except StorageError as error:
        return None, Finding("checkpoint", ok=False, detail=str(error))
    if checkpoint is None:
        return None, Finding(
            "checkpoint", ok=True, detail="none yet: the receiver will be asked for every file"
        )

    return checkpoint, Finding("checkpoint", ok=True, detail=f"{len(checkpoint.entries)} sources")


def _check_taken(
    config: AgentConfig, checkpoint: Checkpoint | None, disk: Disk
) -> tuple[TakenPositions, list[Finding]]:
    """Return the positions of another shipper that a start would go on from."""
    taken = TakenPositions(disk, config.agent.state_dir)
    try:
        if checkpoint is not None or not taken.load():
            return taken, []
    except ConfigError as error:
        return taken, [Finding("positions", ok=False, detail=str(error))]
    detail = f"{len(taken):,} of another shipper in {taken.path}: the first start goes on from them"
    return taken, [Finding("positions", ok=True, detail=detail)]


def _group_by_file(matches: Iterable[MatchedFile]) -> list[list[MatchedFile]]:
    """Return the matches of each file, in their order: by the first a run would read it."""
    grouped: dict[FileKey, list[MatchedFile]] = {}
    for match in matches:
        grouped.setdefault((match.stat.device, match.stat.inode), []).append(match)
    return list(grouped.values())


def _check_file(
    config: AgentConfig,
    names: list[MatchedFile],
    checkpoint: Checkpoint | None,
    taken: TakenPositions,
    disk: Disk,
) -> CheckedFile:
    """Check a file under the first of its *names*."""
    match = names[0]
    others = [printable_path(other.path) for other in names[1:]]
    number = next(index for index, table in enumerate(config.input) if table is match.settings)
    if checkpoint is not None and stamp_of(match.stat) in checkpoint.copies:
        plan = _describe_settled(match)
        return CheckedFile(printable_path(match.path), number, match.stat.size, plan, others)
    try:
        file = disk.open(match.path)
        if suffix_of(match.path):
            file.close()
            plan = _describe_compressed(match, checkpoint)
            return CheckedFile(printable_path(match.path), number, match.stat.size, plan, others)
        try:
            head = file.pread(FIRST_LINE_BYTES, 0)
            line_end = match.settings.line_end_bytes
            has_first_line = FirstLine.find_in(head, line_end=line_end) is not None
            key = match.stat.device, match.stat.inode
            paths = [name.path for name in names]
            position = taken.find(key, paths, lambda size: file.pread(size, 0))
        finally:
            file.close()
        start = position.offset if position is not None else 0
        plan = (
            _describe_plan(match, checkpoint, start)
            if has_first_line
            else f"waits until its first line ends, or has {FIRST_LINE_BYTES:,} bytes"
        )
    except OSError as error:
        plan = f"{_UNREADABLE}: {os_error_text(error)}"
    return CheckedFile(printable_path(match.path), number, match.stat.size, plan, others)


def _describe_settled(match: MatchedFile) -> str:
    """Say what a run has found of a copy, or of a compressed file (rule G5)."""
    skipped = bool(suffix_of(match.path)) and match.settings.unknown_compressed == "skip"
    unless = ', unless nothing was known of it (unknown_compressed = "skip")' if skipped else ""
    return f"looked at before: what is in it has been sent{unless}; again once it changes"


def _describe_compressed(match: MatchedFile, checkpoint: Checkpoint | None) -> str:
    """Say what is done with a compressed file, which only a run unpacks (rule G5)."""
    is_new = checkpoint is not None and match.stat.modified_ns >= 1_000_000 * (
        checkpoint.scanned or checkpoint.written
    )
    sent = is_new or match.settings.unknown_compressed == "ship"
    unknown = "sent whole" if sent else 'not sent (unknown_compressed = "skip")'
    return (
        "compressed: what was not sent of the file that it was is read from it; if nothing is "
        f"known of that, it is {unknown}"
    )


def _describe_plan(match: MatchedFile, checkpoint: Checkpoint | None, taken: int) -> str:
    """*taken* is the position that another shipper had reached, 0 for none."""
    entry = _find_entry(match, checkpoint)
    if entry is not None:
        # the bytes before an input's start are not wanted
        position = max(position_of(entry.number), entry.start)
        new = match.stat.size - position
        return f"from {position}: {new} bytes are new" if new >= 0 else "from 0: it was truncated"
    if 0 < taken <= match.stat.size:
        new = match.stat.size - taken
        return f"from {taken}, where another shipper stopped: {new} bytes are new"
    # *start* counts only for files that exist at the first start of all (rule P2)
    start = match.settings.start
    if checkpoint is None and start != "beginning":
        age = "" if start == "end" else f" if it has not changed for {start}"
        return f"from the end{age}, unless the receiver knows it, or this agent"
    return "from 0, unless the receiver knows it"


def _find_entry(match: MatchedFile, checkpoint: Checkpoint | None) -> CheckpointEntry | None:
    """Return the entry, not yet ended, of the file's inode; of several, the one of its name."""
    entries = (
        [e for e in checkpoint.entries if e.inode == match.stat.inode and e.done is None]
        if checkpoint is not None
        else []
    )
    return min(
        entries,
        key=lambda entry: (
            match.path not in (path_from_text(entry.name), path_from_text(entry.path))
        ),
        default=None,
    )
