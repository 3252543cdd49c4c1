"""An agent in virtual time on the machine's own files, where what matters is what the kernel does:
links, mounts, permissions, holes.
"""

import os
from pathlib import Path
from typing import Any

from logdrive.host.disk import Disk, SystemDisk
from tests.agent.world import World
from tests.support.reader_model import Stored


class RealWorld(World):
    """A `World` whose files are below *root*: logs in `logs`, the checkpoint in `state`."""

    def __init__(self, root: Path, **inputs: Any) -> None:
        super().__init__(**inputs)
        # none that a temporary directory's own links could change
        self.root = root.resolve()
        self.logs = self.root / "logs"
        self.logs.mkdir()
        self.log = self.logs / "app.log"
        self.machine: Disk = SystemDisk()
        self.disk = self.machine  # type: ignore[assignment]
        self.settings["agent"]["state_dir"] = str(self.root / "state")
        self.settings["input"] = [{"paths": [f"{self.logs}/*.log*"], **inputs}]

    async def begin(self) -> None:
        """Start a receiver and the agent."""
        await self.reader()
        self.start()
        await self.pass_time(1)

    async def pass_time(self, seconds: float = 30.0) -> None:
        """Let looks and scans be due, and all be delivered."""
        await self.clock.sleep(seconds)
        await self.settle()

    def put(self, data: bytes, path: Path | None = None, *, at: int | None = None) -> None:
        """Append *data* to a file, made where it is missing, or write it *at* an offset."""
        handle = os.open(path or self.log, os.O_WRONLY | os.O_CREAT, 0o644)
        try:
            os.pwrite(handle, data, os.fstat(handle).st_size if at is None else at)
        finally:
            os.close(handle)

    def all_stored(self) -> list[Stored]:
        """Return what the receiver has of all files, without sources of no bytes."""
        return [stored for stored in self.readers["reader"].stored.values() if stored.data]

    def all_content(self) -> list[bytes]:
        """Return the bytes of each source, sorted."""
        return sorted(stored.content for stored in self.all_stored())
