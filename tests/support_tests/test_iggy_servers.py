"""The real Iggy servers that other tests use: they start, answer, and start again after a kill."""

import socket
from pathlib import Path

import pytest

from tests.support.iggy.servers import DURABLE, REVISIONS, ServerRevision, iggy_server

_PING = bytes.fromhex("04000000 01000000")


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_real_server_answers_and_again_after_a_kill(
    tmp_path: Path, revision: ServerRevision
) -> None:
    with iggy_server(revision, tmp_path / "iggy", DURABLE) as server:
        assert _answer(server.port) == bytes(8)
        before = server.pid

        server.kill()
        server.start()

        assert server.pid != before
        assert _answer(server.port) == bytes(8)


def _answer(port: int) -> bytes:
    with socket.create_connection(("127.0.0.1", port), 5) as connection:
        connection.sendall(_PING)
        return connection.recv(64)
