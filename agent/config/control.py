"""The [control] table: how operators reach the running agent."""

from typing import Annotated

import msgspec

from logdrive.address import host_port
from logdrive.config.bounds import checked

SOCKET_NAME = "control.sock"
"""Name of the control socket in the state directory, by default."""

DEFAULT_METRICS_PORT = 9600
SOCKET_SUFFIX = ".new"
"""Behind the path of the control socket until it has its mode."""
SOCKET_PATH_BYTES = 107 - len(SOCKET_SUFFIX)
"""The longest path of the control socket: Linux has 107 bytes for one, and the suffix is in them.
"""


def _check_socket(path: str) -> None:
    """Refuse a path at which no socket can be made; "" is none."""
    if path and not path.startswith("/"):
        raise ValueError(f"{path!r} must be an absolute path, as in /run/logdrive/control.sock")
    if len(path.encode()) > SOCKET_PATH_BYTES:
        raise ValueError(
            f"{path!r} has more than {SOCKET_PATH_BYTES} bytes, the most that the path of the "
            "control socket may have: choose a shorter one"
        )


def _check_metrics(address: str) -> None:
    """Refuse what is no address; "" is none."""
    if address:
        host_port(address, DEFAULT_METRICS_PORT)  # raises ValueError


class ControlTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [control] table: the control socket, and the address of metrics and health."""

    socket: Annotated[str, checked(_check_socket)] | None = None
    """Path of the control socket; by default `control.sock` in the state directory. "" for none."""

    metrics: Annotated[str, checked(_check_metrics)] = ""
    """Address of metrics and health, as host:port; "" for none."""

    behind_seconds: Annotated[float, msgspec.Meta(ge=0)] = 600.0
    """Seconds of lag from which on /readyz says 503; 0 for never."""

    def __post_init__(self) -> None:
        """Refuse what can't be listened at."""
        _check_socket(self.socket or "")
        _check_metrics(self.metrics)

    def socket_path(self, state_dir: str) -> str:
        """Return the path of the control socket of an agent with *state_dir*; "" for none."""
        return f"{state_dir}/{SOCKET_NAME}" if self.socket is None else self.socket
