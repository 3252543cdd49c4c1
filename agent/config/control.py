"""The [control] table: how operators reach the running agent."""

import msgspec

from logdrive.address import host_port

SOCKET_NAME = "control.sock"
"""Name of the control socket in the state directory, by default."""

DEFAULT_METRICS_PORT = 9600
SOCKET_PATH_BYTES = 107
"""The longest path that a Unix socket may have on Linux."""


class ControlTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [control] table: the control socket, and the address of metrics and health."""

    socket: str | None = None
    """Path of the control socket; by default `control.sock` in the state directory. "" for none."""

    metrics: str = ""
    """Address of metrics and health, as host:port; "" for none."""

    behind_seconds: float = msgspec.field(default=600.0)
    """Seconds of lag from which on /readyz says 503; 0 for never."""

    def __post_init__(self) -> None:
        """Refuse what can't be listened at."""
        if self.socket and not self.socket.startswith("/"):
            raise ValueError("socket must be an absolute path, as in /run/logdrive/control.sock")
        if self.socket and len(self.socket.encode()) > SOCKET_PATH_BYTES:
            raise ValueError(
                f"socket has more than {SOCKET_PATH_BYTES} bytes, the most that a Unix socket's "
                "path may have: choose a shorter one"
            )
        if self.metrics:
            host_port(self.metrics, DEFAULT_METRICS_PORT)  # raises ValueError
        if self.behind_seconds < 0:
            raise ValueError("behind_seconds must be 0 or more")

    def socket_path(self, state_dir: str) -> str:
        """Return the path of the control socket of an agent with *state_dir*; "" for none."""
        return f"{state_dir}/{SOCKET_NAME}" if self.socket is None else self.socket
