"""`logdrive store run` on a new store, with one more listener, for benchmarks of its protocol."""

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
    """Yield the port of [listen.*protocol*], the process id, and the directory of the store.

    The directory is removed afterwards.
    """
    path, config = setting.work / f"{protocol}_store", setting.work / f"{protocol}_store.toml"
    shutil.rmtree(path, ignore_errors=True)
    try:
        with family() as children:
            port, other = free_ports(2)
            config.write_text(
                f'[store]\npath = "{path}"\n'
                f'[listen.pravega]\naddress = "127.0.0.1:{other}"\n'
                f'[listen.{protocol}]\naddress = "127.0.0.1:{port}"\n'
            )
            program = os.path.join(os.path.dirname(sys.executable), "logdrive")
            child = Child(
                [program, "store", "run", "--config", config, "--log-level", "warning"],
                log=setting.work / f"{protocol}_store.log",
            )
            children.append(child)
            wait_for_listener(port, child)
            yield port, child.pid, path
    finally:
        shutil.rmtree(path, ignore_errors=True)
