"""An application that writes numbered lines until SIGTERM, as daemons do whose logs are rotated.

    python log_writer.py LOG

SIGHUP: it opens LOG anew. SIGUSR1: it pauses, and says so by the file LOG.paused in the directory
above; SIGUSR2: it goes on. At the end it prints how many lines it wrote.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Final

LINES_AT_ONCE: Final = 20
SECONDS_BETWEEN: Final = 0.01


def open_log(path: Path) -> int:
    """Open *path* as loggers do."""
    return os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


def pause_mark(path: Path) -> Path:
    """Return the file that is there while the writer of *path* pauses."""
    return path.parent.parent / f"{path.name}.paused"


def line(name: str, number: int) -> bytes:
    """Return one line; no two of an application are equal."""
    return b"%s line %08d %s\n" % (name.encode(), number, b"x" * (number % 50))


def main() -> None:
    """Write until SIGTERM."""
    path, received = Path(sys.argv[1]), set[int]()
    for number in (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGTERM):
        signal.signal(number, lambda number, frame: received.add(number))

    log, lines = open_log(path), 0
    while signal.SIGTERM not in received:
        if signal.SIGHUP in received:
            received.discard(signal.SIGHUP)
            os.close(log)
            log = open_log(path)
        if signal.SIGUSR1 in received:
            pause_mark(path).touch()
            while signal.SIGUSR2 not in received:
                time.sleep(SECONDS_BETWEEN / 10)
            received -= {signal.SIGUSR1, signal.SIGUSR2}
            pause_mark(path).unlink()
        os.write(log, b"".join(line(path.stem, lines + number) for number in range(LINES_AT_ONCE)))
        lines += LINES_AT_ONCE
        time.sleep(SECONDS_BETWEEN)
    print(lines)


if __name__ == "__main__":
    main()
