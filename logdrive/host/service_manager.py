"""The service manager that started this program, such as systemd: what the program tells it.

The protocol is that of sd_notify(3): lines `KEY=VALUE` in one datagram to the Unix socket that
NOTIFY_SOCKET names. Without that variable nothing is sent. The watchdog's time is in WATCHDOG_USEC.
"""

import contextlib
import os
import socket
import time
from collections.abc import Mapping
from typing import Final

_MICROSECONDS: Final = 1_000_000
_STATUS_CHARACTERS: Final = 500
"""Limit on a status: a datagram holds more, a line of `systemctl status` does not."""


class ServiceManager:
    """The service manager, or none. No method waits or raises: what can't be sent is lost.

    *address* is the socket's name, "" for no manager; a leading "@" stands for an abstract one.
    After *watchdog_seconds* without `ping` the manager kills the program; 0.0 for never.
    """

    def __init__(self, address: str = "", watchdog_seconds: float = 0.0) -> None:
        self._address = f"\0{address[1:]}" if address.startswith("@") else address
        self.watchdog_seconds = watchdog_seconds

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> "ServiceManager":
        """Return the manager that *environ* names; a watchdog meant for another process is none."""
        meant_for_us = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        micros = environ.get("WATCHDOG_USEC", "0")
        seconds = int(micros) / _MICROSECONDS if meant_for_us and micros.isdigit() else 0.0
        return cls(environ.get("NOTIFY_SOCKET", ""), seconds)

    @property
    def is_there(self) -> bool:
        """Whether there is a manager to tell anything."""
        return bool(self._address)

    def ready(self) -> None:
        """Tell that the start, or a reload, is over."""
        self._send("READY=1")

    def reloading(self) -> None:
        """Tell that a reload begins; `ready` must follow, also where the reload failed."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send("RELOADING=1", f"MONOTONIC_USEC={now}")

    def stopping(self) -> None:
        """Tell that the program has begun to end."""
        self._send("STOPPING=1")

    def extend_timeout(self, seconds: float) -> None:
        """Ask for *seconds* more, from now on, for the start or the stop that is under way."""
        self._send(f"EXTEND_TIMEOUT_USEC={int(seconds * _MICROSECONDS)}")

    def show_status(self, text: str) -> None:
        """Show *text* in `systemctl status`; a line end would be taken for another key."""
        self._send(f"STATUS={text[:_STATUS_CHARACTERS]}".replace("\n", " "))

    def ping(self) -> None:
        """Tell the watchdog that the program is alive."""
        if self.watchdog_seconds:
            self._send("WATCHDOG=1")

    def _send(self, *lines: str) -> None:
        if not self._address:
            return
        # a manager that is gone, or so busy that its socket is full, stops no program
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as notifier,
        ):
            notifier.setblocking(False)
            notifier.sendto("\n".join(lines).encode(), self._address)
