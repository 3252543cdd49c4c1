"""Real pipes, standard input and datagrams at a stop: what the kernel took is read, then none is.

Each writer notes what the kernel took of it, and writes until it is refused. And real programs: how
they end.
"""

import asyncio
import errno
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from agent.inputs.local.descriptors import DescriptorInput
from agent.inputs.local.ports import ByteInput, DatagramInput
from agent.inputs.local.system import SystemInputs

LINE = b"x" * 99 + b"\n"


async def rest_of(stopped: ByteInput) -> bytes:
    """Return all that is read until the end, in small pieces."""
    read = bytearray()
    while data := await stopped.read(10_000):
        read += data
    return bytes(read)


async def datagrams_of(stopped: DatagramInput) -> list[bytes]:
    received = list[bytes]()
    while found := await stopped.receive(1000):
        received += [data for data, _ in found]
    return received


class PipeWriters:
    """Threads that write lines into a pipe as fast as it goes, until they are refused."""

    def __init__(self, open_pipe: Callable[[], int], count: int) -> None:
        self.taken = 0
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._write, args=(open_pipe(),)) for _ in range(count)
        ]
        for thread in self._threads:
            thread.start()

    def _write(self, descriptor: int) -> None:
        try:
            while True:
                written = os.write(descriptor, LINE)
                with self._lock:
                    self.taken += written
        except BrokenPipeError:
            os.close(descriptor)

    def wait(self) -> None:
        for thread in self._threads:
            thread.join(10)
        assert not any(thread.is_alive() for thread in self._threads), "none was refused"


@pytest.mark.parametrize("round_", range(20))
def test_of_a_pipe_that_is_ended_all_that_its_writers_wrote_is_read(
    tmp_path: Path, round_: int
) -> None:
    async def story() -> None:
        path = tmp_path / "pipe"
        pipe = SystemInputs().open_pipe(str(path), 0o600)
        writers = PipeWriters(lambda: os.open(path, os.O_WRONLY), 3)
        read = 0
        while read < round_ * 10_000:
            read += len(await pipe.read(4096))
        pipe.end()
        await asyncio.to_thread(writers.wait)
        assert read + len(await rest_of(pipe)) == writers.taken
        with pytest.raises(OSError, match=os.strerror(errno.ENXIO)):
            os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        pipe.close()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_pipe_that_is_awaited_ends_at_once_and_leaves_its_number_to_others(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        pipe = SystemInputs().open_pipe(str(tmp_path / "pipe"), 0o600)
        reading = asyncio.ensure_future(pipe.read(100))
        await asyncio.sleep(0.05)
        pipe.end()
        readable, writable = socket.socketpair()  # with the number that is free now
        woken = asyncio.Event()
        asyncio.get_running_loop().add_reader(readable, woken.set)
        assert await reading == b""
        writable.send(b"x")
        await woken.wait()
        asyncio.get_running_loop().remove_reader(readable)
        readable.close()
        writable.close()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_of_a_pipe_without_a_name_all_that_was_written_is_read() -> None:
    async def story() -> None:
        reading, writing = os.pipe()
        piped = DescriptorInput(reading, has_end=True)
        writers = PipeWriters(lambda: writing, 1)
        read = len(await piped.read(4096))
        piped.end()
        await asyncio.to_thread(writers.wait)
        assert read + len(await rest_of(piped)) == writers.taken

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_standard_input_that_was_ended_refuses_its_writer_and_keeps_its_number() -> None:
    program = (
        "import asyncio, os, sys\n"
        "from agent.inputs.local.system import SystemInputs\n"
        "async def story():\n"
        "    stdin = SystemInputs().open_stdin()\n"
        "    print('open', flush=True)\n"
        "    await asyncio.sleep(0.2)\n"
        "    stdin.end()\n"
        "    print((await stdin.read(100)).decode(), await stdin.read(100))\n"
        "    print(os.readlink('/proc/self/fd/0'), flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(story())\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == b"open\n"
        process.stdin.write(b"last")
        assert process.stdout.readline() == b"last b''\n"
        assert process.stdout.readline() == b"/dev/null\n"
        with pytest.raises(BrokenPipeError):
            process.stdin.write(b"more")
        process.kill()


@pytest.mark.parametrize("round_", range(1, 11))
def test_of_datagrams_that_senders_sent_all_are_received_then_they_are_refused(
    tmp_path: Path, round_: int
) -> None:
    path = tmp_path / "d.sock"
    taken = list[bytes]()

    def send() -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.connect(str(path))
            try:
                while True:
                    text = b"%d" % len(taken)
                    sender.send(text)
                    taken.append(text)
            except OSError:
                return

    async def story() -> None:
        bound = SystemInputs().bind_unix(str(path), 0o600)
        sending = asyncio.ensure_future(asyncio.to_thread(send))
        received = list[bytes]()
        while len(received) < round_ * 50:
            received += [data for data, _ in await bound.receive(1000)]
        bound.end()
        received += await datagrams_of(bound)
        await sending
        assert received == taken
        assert not path.exists()

    asyncio.run(asyncio.wait_for(story(), 30))


def test_a_udp_port_that_was_ended_is_closed_once_what_waited_is_received() -> None:
    async def story() -> None:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.bind(("127.0.0.1", 0))
            address = probe.getsockname()
        bound = SystemInputs().bind_udp(*address)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.connect(address)
            for n in range(100):
                sender.send(b"%d" % n)
            bound.end()
            assert await datagrams_of(bound) == [b"%d" % n for n in range(100)]
            sender.send(b"nothing receives it")
            with pytest.raises(ConnectionRefusedError):
                sender.send(b"as the sender is told")

    asyncio.run(asyncio.wait_for(story(), 30))


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("echo out", ""),
        ("echo out; exit 3", "it ended with 3"),
        ("echo out; echo why >&2; exit 3", "why"),
        ("echo out; exec >&-; sleep 0.2; exit 3", "it ended with 3"),
    ],
)
def test_a_program_that_ends_says_why_by_itself(
    script: str, reason: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        for _ in range(10):
            program = await SystemInputs().start_program(["/bin/sh", "-c", script])
            assert await program.read() == b"out\n"
            assert await program.read() == b""
            assert await program.end() == reason

    asyncio.run(asyncio.wait_for(story(), 30))
    assert not caplog.records, "asyncio lost a process"


def test_a_program_that_goes_on_is_killed_also_one_that_has_just_ended(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def story() -> None:
        program = await SystemInputs().start_program(["/bin/sh", "-c", "echo out; exec sleep 60"])
        assert await program.read() == b"out\n"
        assert await program.end() == "it ended with -9"
        for _ in range(20):
            program = await SystemInputs().start_program(["/bin/sh", "-c", "echo out"])
            assert await program.read() == b"out\n"
            assert await program.end() in ("", "it ended with -9")

    asyncio.run(asyncio.wait_for(story(), 30))
    assert not caplog.records, "asyncio lost a process"
