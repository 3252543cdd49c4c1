"""`logdrive store run`, for benchmarks that talk to a store in one of its protocols."""

import contextlib
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.measure import Setting
from bench.processes import Child, family, free_ports, wait_for_listener


@contextlib.contextmanager
def served_store(protocol: str, setting: Setting) -> Iterator[tuple[int, int, Path]]:
    """Yield the port of [listen.*protocol*], the process id, and the directory of a new store.

    The directory is removed afterwards.
    """
    path = setting.work / f"{protocol}_store"
    shutil.rmtree(path, ignore_errors=True)
    try:
        with served_directory(protocol, path, setting) as (port, pid):
            yield port, pid, path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def served_directory(protocol: str, path: Path, setting: Setting) -> Iterator[tuple[int, int]]:
    """Serve the store at *path*; yield the port of [listen.*protocol*] and the process id."""
    config = setting.work / f"{protocol}_store.toml"
    port, other = free_ports(2)
    faces = {"pravega": other, protocol: port}
    config.write_text(
        f'[store]\npath = "{path}"\n'
        + "".join(
            f'[listen.{name}]\naddress = "127.0.0.1:{number}"\n' for name, number in faces.items()
        )
    )
    program = os.path.join(os.path.dirname(sys.executable), "logdrive")
    with family() as children:
        child = Child(
            [program, "store", "run", "--config", config, "--log-level", "warning"],
            log=setting.work / f"{protocol}_store.log",
        )
        children.append(child)
        wait_for_listener(port, child)
        yield port, child.pid
