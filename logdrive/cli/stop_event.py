"""Stop signals for commands that run without an event loop."""

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from logdrive.cli.runtime import stop_signals


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that the first stop signal sets; a second signal ends the process."""
    stop = threading.Event()

    def on_signal(number: int, _: Any) -> None:
        signal.signal(number, signal.SIG_DFL)
        stop.set()

    before = {number: signal.signal(number, on_signal) for number in stop_signals()}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
