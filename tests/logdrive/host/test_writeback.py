"""Advice to the kernel changes no byte, and fails nothing."""

import os
from pathlib import Path

from logdrive.host.writeback import begin_writeback


def test_the_bytes_stay_as_they_are(tmp_path: Path) -> None:
    data = os.urandom(3_000_001)
    with open(tmp_path / "file", "wb") as file:
        file.write(data)
        file.flush()
        begin_writeback(file.fileno(), 0, 1_000_000)
        begin_writeback(file.fileno(), 1_000_000, len(data))
        file.write(b"more")
    assert (tmp_path / "file").read_bytes() == data + b"more"


def test_what_takes_no_advice_is_no_error() -> None:
    source, sink = os.pipe()
    try:
        begin_writeback(sink, 0, 1)
    finally:
        os.close(source)
        os.close(sink)
