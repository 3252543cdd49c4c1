"""The [agent] table: who the agent is, where it keeps its checkpoint, how many files it opens."""

from typing import Annotated

import msgspec

from logdrive.config.bounds import Positive, checked
from logdrive.model.units import GIB

Name = Annotated[str, msgspec.Meta(min_length=1, max_length=255)]

STATE_DIR_REMEDY = "name a directory that the agent's user may create and write to"

LOCK_NAME = "lock"
"""Name of the file in the state directory that a running agent has locked."""


def _check_state_dir(path: str) -> None:
    """Refuse a relative path: it would depend on where the agent is started."""
    if not path.startswith("/"):
        raise ValueError(f"{path!r} must be an absolute path, as in /var/lib/logdrive-agent")


class AgentTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [agent] table: the agent's identity, its checkpoint, and its limits on open files."""

    state_dir: Annotated[str, checked(_check_state_dir)]
    """Directory of the checkpoint."""

    id: Name | None = None
    """The agent's id, part of each origin id (rule G2); by default made from the machine's id."""

    host: Name | None = None
    """The host's name, part of each origin id; by default the machine's name."""

    drain_seconds: Annotated[float, msgspec.Meta(ge=0)] = 30.0
    """Seconds that a stop waits for acknowledgements."""

    linger_seconds: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    """Seconds that a stop goes on following files before it drains."""

    files_end_with_agent: bool = False
    """Whether nothing is written to the files any more once the agent has drained, as in a pod."""

    rescan_seconds: Positive = 10.0
    """Seconds between two scans of the inputs."""

    max_open_files: Annotated[int, msgspec.Meta(ge=16)] = 8192
    """Open files above which idle ones are closed."""

    close_idle_seconds: Positive = 300.0
    """Seconds without growth after which a file is idle."""

    keep_ended_days: Positive = 7.0
    """Days that an ended source stays in the checkpoint (rule G6)."""

    keep_removed_days: Positive = 7.0
    """Days that an unread deleted file is held open (rule G1)."""

    keep_removed_bytes: Annotated[int, msgspec.Meta(ge=0)] = 32 * GIB
    """Limit on the unread bytes of deleted files that are held open, all together."""

    def __post_init__(self) -> None:
        """Refuse a relative path."""
        _check_state_dir(self.state_dir)
