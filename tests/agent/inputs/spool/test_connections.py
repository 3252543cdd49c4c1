"""Connections of programs and syslog senders, over real sockets: what a stop and a flood do."""

import asyncio
import errno
import os
import pty
import socket
import subprocess
import sys
import tty
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path

import pytest
import structlog

from agent.config.spooled import SocketTable
from agent.inputs.local.descriptors import DescriptorInput
from agent.inputs.local.ports import LocalListener
from agent.inputs.local.system import SystemInputs
from agent.inputs.spool import kept_open
from agent.inputs.spool.blocks import Senders
from agent.inputs.spool.channel import SpoolChannel
from agent.inputs.spool.framing import LineFraming
from agent.inputs.spool.readers import BytesReader, ConnectionReader, DatagramReader, Reader
from logdrive.host.clock import SystemClock
from logdrive.host.transport import Accept, Listener, ListenerLimits
from logdrive.model.units import KIB, MIB
from logdrive.net.tcp import SystemTransport

LINE = b"x" * 99 + b"\n"


class SlowChannel(SpoolChannel):
    """Takes what readers hand over, once *room* is set."""

    def __init__(self, table: SocketTable) -> None:
        async def never(_table: object) -> object:
            raise AssertionError

        super().__init__(
            "socket[0]",
            table,
            never,  # type: ignore[arg-type]
            print,
            print,
            has_room=bool,
            clock=SystemClock(),
            log=structlog.get_logger(),
        )
        self.room = asyncio.Event()
        self.text = bytearray()

    async def append(self, text: bytes, senders: Senders) -> None:
        self.text += text
        await self.room.wait()

    def offer(self, text: bytes, senders: Senders) -> None:
        self.text += text


def reader_at(path: Path, limits: ListenerLimits) -> tuple[ConnectionReader, SlowChannel]:
    """Return a reader of a Unix socket, not open yet, and what it hands over to."""
    return reader_of(path, partial(SystemInputs().listen_unix, str(path), 0o600, limits=limits))


def reader_of(
    path: Path,
    listen: Callable[[Accept], Awaitable[LocalListener]],
    *,
    connections: int = 256,
    idle_seconds: float = 60,
) -> tuple[ConnectionReader, SlowChannel]:
    """Return a reader of what *listen* accepts, and what it hands over to."""
    table = SocketTable(path=str(path))
    channel = SlowChannel(table)
    reader = ConnectionReader(
        listen,
        channel,
        partial(LineFraming, table.message_bytes),
        connections=connections,
        idle_seconds=idle_seconds,
        clock=SystemClock(),
        log=structlog.get_logger(),
    )
    return reader, channel


async def send(path: Path, data: bytes) -> int:
    """Send as much of *data* as is taken; return how much that is."""
    with socket.socket(socket.AF_UNIX) as sender:
        sender.setblocking(False)
        sender.connect(str(path))
        sent = 0
        for _ in range(20):
            try:
                sent += sender.send(data[sent:])
            except BlockingIOError:
                await asyncio.sleep(0.01)
        return sent


def test_a_stop_reads_what_has_come_over_connections(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "s.sock"
        reader, channel = reader_at(path, ListenerLimits(10, 64 * KIB))
        await reader.open()
        running = asyncio.ensure_future(reader.run())
        sent = await send(path, LINE * 3000)  # and the connection is over
        assert sent > len(channel.text) + 64 * KIB, "nothing waits in the kernel"
        await reader.stop()
        channel.room.set()
        await running
        assert len(channel.text.rstrip(b"\n")) == len((LINE * 3000)[:sent].rstrip(b"\n"))

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_stop_refuses_what_is_sent_over_a_unix_socket_and_keeps_what_was_taken(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        path = tmp_path / "s.sock"
        reader, channel = reader_at(path, ListenerLimits(10, 64 * KIB))
        channel.room.set()
        await reader.open()
        running = asyncio.ensure_future(reader.run())

        def send_on() -> bytes:
            taken = bytearray()
            with socket.socket(socket.AF_UNIX) as sender:
                sender.connect(str(path))
                while True:
                    line = b"%d\n" % len(taken)
                    try:
                        sender.sendall(line)
                    except BrokenPipeError:
                        return bytes(taken)
                    taken += line

        sending = asyncio.ensure_future(asyncio.to_thread(send_on))
        await asyncio.sleep(0.2)
        await reader.stop()
        await running
        assert channel.text == await sending

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_stop_comes_to_an_end_while_a_connection_over_tcp_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        listeners = list[Listener]()

        async def listen(accept: Accept) -> Listener:
            listeners.append(await SystemTransport().listen("127.0.0.1", 0, None, accept))
            return listeners[-1]

        reader, channel = reader_of(tmp_path, listen)
        channel.room.set()
        await reader.open()
        running = asyncio.ensure_future(reader.run())
        _, writer = await asyncio.open_connection(*listeners[0].address)

        async def write() -> None:
            while True:
                writer.write(LINE)
                await writer.drain()
                await asyncio.sleep(0.01)

        writing = asyncio.ensure_future(write())
        await asyncio.sleep(0.1)
        await reader.stop()
        await running
        writing.cancel()
        assert channel.text.startswith(LINE)
        writer.close()

    asyncio.run(asyncio.wait_for(story(), 30))


@pytest.mark.parametrize("end", ["stop", "silence", "one too many"])
def test_what_a_sender_writes_over_tcp_once_its_connection_is_ended_fails(
    tmp_path: Path, end: str
) -> None:
    """It must not be taken and dropped, as in an orderly close."""

    async def story() -> None:
        listeners = list[Listener]()

        async def listen(accept: Accept) -> Listener:
            listeners.append(await SystemTransport().listen("127.0.0.1", 0, None, accept))
            return listeners[-1]

        reader, channel = reader_of(
            tmp_path,
            listen,
            connections=0 if end == "one too many" else 1,
            idle_seconds=0.1 if end == "silence" else 60,
        )
        channel.room.set()
        await reader.open()
        running = asyncio.ensure_future(reader.run())
        with socket.create_connection(listeners[0].address) as sender:
            if end != "one too many":
                sender.sendall(LINE)
            await asyncio.sleep(0.1)
            if end == "stop":
                await reader.stop()
                await running
            await asyncio.sleep(0.3)
            with pytest.raises(ConnectionResetError):
                sender.sendall(LINE)
        if end != "stop":
            await reader.stop()
            await running
        assert channel.text == (b"" if end == "one too many" else LINE)

    asyncio.run(asyncio.wait_for(story(), 30))


def test_many_connections_together_bring_no_more_than_their_limit(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "s.sock"
        reader, channel = reader_at(path, ListenerLimits(64, 1 * MIB))
        await reader.open()
        running = asyncio.ensure_future(reader.run())
        opened = [await asyncio.open_unix_connection(str(path)) for _ in range(64)]
        await asyncio.sleep(0.1)
        for _, writer in opened:
            writer.write(LINE * 3000)
        await asyncio.sleep(0.3)
        assert 64 * len(LINE) < len(channel.text) <= 1 * MIB
        for _, writer in opened:
            writer.transport.abort()
        channel.room.set()
        await reader.stop()
        await running

    asyncio.run(asyncio.wait_for(story(), 30))


def kinds(path: Path) -> list[tuple[Reader, SlowChannel, Callable[[bytes], None]]]:
    """Return a reader of each kind of path, its channel, and how a program writes there."""

    def write_pipe(data: bytes) -> None:
        descriptor = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        os.write(descriptor, data)
        os.close(descriptor)

    def write_socket(kind: socket.SocketKind, data: bytes) -> None:
        with socket.socket(socket.AF_UNIX, kind) as sender:
            sender.connect(str(path))
            sender.sendall(data)

    local, channel = SystemInputs(), SlowChannel(SocketTable(path=str(path)))
    stream, stream_channel = reader_at(path, ListenerLimits(10, 64 * KIB))
    return [
        (BytesReader(partial(local.open_pipe, str(path), 0o600), channel), channel, write_pipe),
        (
            DatagramReader(partial(local.bind_unix, str(path), 0o600), channel, 1000),
            channel,
            partial(write_socket, socket.SOCK_DGRAM),
        ),
        (stream, stream_channel, partial(write_socket, socket.SOCK_STREAM)),
    ]


@pytest.mark.parametrize("kind", range(3), ids=["pipe", "datagrams", "connections"])
def test_what_is_removed_from_its_path_is_made_again_and_no_byte_is_lost(
    tmp_path: Path, kind: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_open, "_LOOK_SECONDS", 0.05)

    async def story() -> None:
        directory = tmp_path / "run"
        directory.mkdir()
        path = directory / "input"
        reader, channel, write = kinds(path)[kind]
        channel.room.set()
        await reader.open()
        keeper = kept_open.KeptOpen(
            reader, str(path), "it", SystemInputs(), SystemClock(), structlog.get_logger()
        )
        with structlog.testing.capture_logs() as said:
            keeping = asyncio.ensure_future(keeper.run())
            write(b"first\n")
            path.unlink()
            directory.rmdir()
            await asyncio.sleep(0.3)
            running = asyncio.ensure_future(reader.run())
            await asyncio.sleep(0)  # it is opened anew only while it runs
            directory.mkdir()
            while not path.exists():  # noqa: ASYNC110 - another task makes it
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05)
            write(b"second\n")
            await asyncio.sleep(0.3)
            keeping.cancel()
            await reader.stop()
            await running
            reader.close()
        assert channel.text == b"first\nsecond\n"
        assert [entry["event"].split(":")[0] for entry in said] == [
            "programs can't reach an input any more",
            "an input was made again",
        ]
        assert [name.name for name in directory.iterdir()] == (["input"] if not kind else [])

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_socket_that_another_program_made_is_not_removed_at_the_end(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "s.sock"
        for reader, _, _ in kinds(path)[1:]:
            await reader.open()
            path.unlink()
            path.write_text("another's")
            await reader.stop()
            reader.close()
            assert path.read_text() == "another's"
            path.unlink()

    asyncio.run(asyncio.wait_for(story(), 30))


@pytest.mark.parametrize(("redirection", "reason"), [("<&-", "closed"), ("0>/dev/null", "writing")])
def test_why_a_standard_input_can_t_be_read_is_said(redirection: str, reason: str) -> None:
    program = (
        "from agent.inputs.local.system import SystemInputs\n"
        "from logdrive.errors import ConfigError\n"
        "try: SystemInputs().open_stdin()\n"
        "except ConfigError as error: print(error)\n"
    )
    done = subprocess.run(
        ["/bin/sh", "-c", f'exec "$0" -c "$1" {redirection}', sys.executable, program],
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert b"start the agent behind a pipe" in done.stdout
    assert reason.encode() in done.stdout


def test_a_standard_input_that_fails_has_ended_and_what_came_is_kept(tmp_path: Path) -> None:
    async def story() -> None:
        terminal, slave = pty.openpty()
        tty.setraw(slave)
        channel = SlowChannel(SocketTable(path=str(tmp_path / "unused")))
        channel.room.set()
        reader = BytesReader(lambda: DescriptorInput(slave, has_end=True), channel)
        await reader.open()
        running = asyncio.ensure_future(reader.run())
        os.write(terminal, b"typed\n")
        await asyncio.sleep(0.1)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(os, "read", fail)
            os.write(terminal, b"more\n")
            await running
        os.close(terminal)
        reader.close()
        assert (bytes(channel.text), reader.at_end) == (b"typed\n", True)

    def fail(descriptor: int, limit: int) -> bytes:
        raise OSError(errno.EIO, "it is gone")

    asyncio.run(asyncio.wait_for(story(), 30))


@pytest.mark.parametrize("kind", range(2), ids=["pipe", "datagrams"])
def test_a_stop_refuses_writers_while_what_came_waits_for_the_disk(
    tmp_path: Path, kind: int
) -> None:
    async def story() -> None:
        reader, channel, write = kinds(tmp_path / "input")[kind]
        await reader.open()
        running = asyncio.ensure_future(reader.run())
        await asyncio.sleep(0)
        write(b"first\n")
        await asyncio.sleep(0.1)
        write(b"second\n")
        await reader.stop()
        with pytest.raises(OSError):  # noqa: PT011 - each kind of input has its own
            write(b"too late\n")
        channel.room.set()
        await running
        reader.close()
        assert channel.text == b"first\nsecond\n"

    asyncio.run(asyncio.wait_for(story(), 30))
