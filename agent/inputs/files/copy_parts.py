"""The parts that recognize copies, plain and compressed, made and joined (rule G5)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agent.inputs.files.compressed.compressed_files import CompressedFiles
from agent.inputs.files.copies.awaited import AwaitedRest
from agent.inputs.files.copies.copies import Copies
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.open_files import OpenFiles
from agent.inputs.files.paths.file_locations import FileLocations
from agent.inputs.files.paths.missing import MissingFiles
from agent.sources.file_log import FileLog
from agent.sources.identity import Fingerprinter
from agent.sources.place import FileKey
from agent.sources.queue import SendQueue
from agent.sources.registry import SourceRegistry
from logdrive.host.clock import Clock
from logdrive.host.disk import Disk


@dataclass(frozen=True, slots=True)
class CopyParts:
    """What recognizes copies, where scans look for files."""

    copies: Copies
    """Plain files, and the sources that wait for a copy."""

    compressed: CompressedFiles
    """Compressed ones."""


def make_copy_parts(
    registry: SourceRegistry,
    send_queue: SendQueue,
    followed: dict[FileKey, FollowedFile],
    *,
    fingerprinter: Fingerprinter,
    locations: FileLocations,
    disk: Disk,
    clock: Clock,
    open_files: OpenFiles,
    missing: MissingFiles,
    follow_file: Callable[[FollowedFile], None],
    look_at: Callable[[FollowedFile], None],
    log: Any,
    file_log: FileLog,
) -> CopyParts:
    """Make the parts; the arguments are the tailer's own parts and methods."""

    def try_compressed(awaited: AwaitedRest, path: str, now: float) -> None:
        compressed.try_candidate(awaited, path, now)

    copies = Copies(
        registry,
        send_queue,
        followed,
        fingerprinter=fingerprinter,
        disk=disk,
        clock=clock,
        open_files=open_files,
        missing=missing,
        try_compressed=try_compressed,
        follow_file=follow_file,
        look_at=look_at,
        log=log,
        file_log=file_log,
    )
    compressed = CompressedFiles(
        registry,
        send_queue,
        copies,
        fingerprinter=fingerprinter,
        locations=locations,
        disk=disk,
        clock=clock,
        file_log=file_log,
    )
    return CopyParts(copies, compressed)
