"""A store with an Iggy face on loopback, in a process of its own: `logdrive store run`.

with IggyFace(directory) as face:
    face.port
    face.kill()  # as SIGKILL does
    face.start()  # with the same port and the same store

Iggy's older Python clients hold the interpreter while they wait: their server must not be in
their process, and they should not be in ours (see `tests/interop/iggy`).
"""

import socket
from functools import partial
from pathlib import Path

from tests.support.store_process import StoreProcess

USER = PASSWORD = "iggy"
_PING = bytes.fromhex("0400000001000000")
_PONG = bytes(8)


class IggyFace(StoreProcess):
    """The store in *directory*/store, served to Iggy's clients in the `with` block.

    *table* are more lines of [listen.iggy]; *more* are other tables of store.toml. It has started
    once it answers a ping, and with TLS once it listens.
    """

    def __init__(self, directory: Path, table: str = "", more: str = "") -> None:
        answers = partial(_answers, plain=".tls]" not in more)
        super().__init__(directory, "listen.iggy", answers, table, more)


def _answers(port: int, *, plain: bool) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as probe:
            if not plain:
                return True
            probe.sendall(_PING)
            return probe.recv(len(_PONG), socket.MSG_WAITALL) == _PONG
    except OSError:
        return False
