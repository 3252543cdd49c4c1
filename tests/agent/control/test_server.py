"""The control socket: who may use it, what is left of a killed agent, and bounded requests."""

import asyncio
import os
import socket
import stat
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from agent.config.control import SOCKET_PATH_BYTES, ControlTable
from agent.control.client import NoAgentError, RefusedRequestError, ask_agent
from agent.control.messages import REQUEST_BYTES, StatusRequest
from agent.control.server import serve_control


class _Log:
    def __init__(self) -> None:
        self.warnings: list[dict[str, Any]] = []

    def warning(self, event: str, **words: Any) -> None:
        self.warnings.append({"event": event, **words})


async def _echo(line: bytes) -> bytes:
    return b"answer to " + line


async def _ask(path: Path, data: bytes) -> bytes:
    reader, writer = await asyncio.open_unix_connection(str(path))
    writer.write(data)
    answer = await reader.readline()  # what follows is a reset, where not all was read
    writer.close()
    return answer


def test_only_the_user_and_the_group_may_use_it_and_it_goes_with_the_agent(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"

    async def main() -> None:
        log = _Log()
        async with serve_control(str(path), _echo, log):
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
            assert path.stat().st_uid == os.getuid()
            assert await _ask(path, b"x\n") == b"answer to x\n"
            assert os.listdir(tmp_path) == ["c.sock"]
        assert (os.listdir(tmp_path), log.warnings) == ([], [])

    asyncio.run(main())


def test_the_socket_of_a_killed_agent_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    for leftover in (path, tmp_path / "c.sock.new"):
        with socket.socket(socket.AF_UNIX) as left:
            left.bind(str(leftover))

    async def main() -> None:
        async with serve_control(str(path), _echo, _Log()):
            assert await _ask(path, b"x\n") == b"answer to x\n"

    asyncio.run(main())


def test_a_socket_that_another_agent_listens_at_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"

    async def main() -> None:
        log = _Log()
        async with serve_control(str(path), _echo, _Log()), serve_control(str(path), _echo, log):
            assert [warning["reason"] for warning in log.warnings] == [
                "another process listens there"
            ]
            assert await _ask(path, b"x\n") == b"answer to x\n"

    asyncio.run(main())


def test_a_file_that_the_socket_s_path_names_by_mistake_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "agent.toml"
    path.write_text("[agent]")

    async def main() -> None:
        log = _Log()
        async with serve_control(str(path), _echo, log):
            assert path.read_text() == "[agent]"
            (warning,) = log.warnings
            assert warning["reason"] == "it is there, and is no socket"
        assert path.read_text() == "[agent]"

    asyncio.run(main())


def test_the_longest_path_that_the_configuration_takes_can_be_listened_at() -> None:
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory, "x" * (SOCKET_PATH_BYTES - len(directory) - 1))
        ControlTable(socket=str(path))
        with pytest.raises(ValueError, match="more than 103 bytes"):
            ControlTable(socket=f"{path}x")

        async def main() -> None:
            async with serve_control(str(path), _echo, _Log()):
                assert await _ask(path, b"x\n") == b"answer to x\n"

        asyncio.run(main())


@pytest.mark.parametrize("name", ["no such directory/c.sock", "x" * 110])
def test_an_agent_goes_on_where_the_socket_can_not_be_made(tmp_path: Path, name: str) -> None:
    async def main() -> None:
        log = _Log()
        async with serve_control(str(tmp_path / name), _echo, log):
            pass
        assert ["no control socket" in warning["event"] for warning in log.warnings] == [True]

    asyncio.run(main())


def test_a_request_without_end_is_refused_and_one_that_breaks_off_is_left(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"

    async def main() -> None:
        async with serve_control(str(path), _echo, _Log()):
            assert b"at most" in await _ask(path, b"x" * (2 * REQUEST_BYTES))
            assert b"at most" in await _ask(path, b"x" * (2 * REQUEST_BYTES) + b"\n")
            reader, writer = await asyncio.open_unix_connection(str(path))
            writer.write(b"half")
            writer.write_eof()
            assert await reader.read() == b""
            writer.close()
            assert await _ask(path, b"x\n") == b"answer to x\n"

    asyncio.run(main())


def test_only_so_many_are_answered_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"

    async def main() -> None:
        async with serve_control(str(path), _echo, _Log()):
            waiting = [await asyncio.open_unix_connection(str(path)) for _ in range(16)]
            await asyncio.sleep(0.05)
            assert b"too many" in await _ask(path, b"x\n")
            for reader, writer in waiting:
                writer.write(b"y\n")
                assert await reader.read() == b"answer to y\n"
                writer.close()

    asyncio.run(main())


def test_one_who_asks_is_told_what_is_wrong(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    with pytest.raises(NoAgentError, match=r"no agent runs here: there is no socket .* --config"):
        ask_agent(str(path), StatusRequest())
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    with pytest.raises(NoAgentError, match="one that was killed left its socket"):
        ask_agent(str(path), StatusRequest())

    async def main() -> None:
        async def refuse(_: bytes) -> bytes:
            return b'{"ok":false,"error":"not today"}\n'

        async def other(_: bytes) -> bytes:
            return b"HTTP/1.1 400 Bad Request\r\n\r\n"

        async with serve_control(str(path), refuse, _Log()):
            with pytest.raises(RefusedRequestError, match="not today"):
                await asyncio.to_thread(ask_agent, str(path), StatusRequest())
        async with serve_control(str(path), other, _Log()):
            with pytest.raises(NoAgentError, match="no agent of this version"):
                await asyncio.to_thread(ask_agent, str(path), StatusRequest())

    with capture_logs():
        asyncio.run(main())


def test_a_client_hears_what_an_agent_said_that_closed_before_it_asked(tmp_path: Path) -> None:
    path = tmp_path / "c.sock"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(path))
        listening.listen()

        def answer_first() -> None:
            connection, _ = listening.accept()
            connection.sendall(b'{"ok":false,"error":"too many ask at once: try again"}\n')
            connection.close()

        thread = threading.Thread(target=answer_first)
        thread.start()
        connect = socket.socket.connect

        class Late(socket.socket):
            def connect(self, address: Any) -> None:
                connect(self, address)
                thread.join()

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(socket, "socket", Late)
            with pytest.raises(RefusedRequestError, match="too many ask at once"):
                ask_agent(str(path), StatusRequest())
