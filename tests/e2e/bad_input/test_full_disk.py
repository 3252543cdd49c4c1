"""A full disk: said once, nothing acknowledged that is not kept, connections live, and once there
is room all goes on (D2, D3).
"""

import asyncio
import errno
import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from bench.processes import free_port
from logdrive.errors import TransientError
from logdrive.model.numbers import position_of
from logdrive.model.units import KIB
from logdrive.net.tcp import SystemTransport
from logdrive.wire.lumberjack.frames import AckFrame, PositionFrame, RefusalCode, RefusalFrame
from tests.e2e.bad_input.bystanders import LINE, Native, Promised, run_of, text, window_of
from tests.e2e.bad_input.outlaw import Said
from tests.logdrive.net.loopback import eventually
from tests.receiver.peers import NativePeer, Peer
from tests.support.disks.tmpfs import Tmpfs, tmpfs
from tests.support.installation import STREAM, Installation, Process, command
from tests.support.pki import Pki

pytestmark = pytest.mark.process

ENOSPC = os.strerror(errno.ENOSPC)


class Cramped:
    """A receiver whose store is on a disk of 24 MiB, and an agent that ships to it."""

    def __init__(self, root: Path, pki: Pki, disk: Tmpfs, installation: Installation) -> None:
        self.pki, self.disk, self.installation = pki, disk, installation
        self.promised = Promised("dns:client.example")
        self.receiver: Process = installation.receiver()
        # it takes connections before it says so, which is none of the lines that are counted
        _until(
            lambda: "event=listening" in self.receiver.said(),
            30,
            "the receiver does not say that it listens",
        )
        self.said = Said(self.receiver.log)

    async def native(self) -> NativePeer:
        tls = self.pki.client(name="localhost", alpn=("logdrive/1",))
        return NativePeer(await SystemTransport().connect("127.0.0.1", self.installation.port, tls))

    async def foreign(self) -> Peer:
        tls = self.pki.client(name="localhost", alpn=())
        return Peer(
            await SystemTransport().connect("127.0.0.1", self.installation.port, tls), "lumberjack"
        )

    def again(self) -> None:
        """End the receiver without a word, and start another."""
        self.receiver.kill()
        self.said = Said(self.receiver.log)
        self.receiver = self.installation.receiver()

    def end(self) -> None:
        assert self.receiver.terminate() == 0, self.receiver.said()
        assert "Traceback" not in self.receiver.log.read_text()
        self.promised.check(self.installation.ledger())


@pytest.fixture
def cramped(tmp_path: Path, pki: Pki) -> Iterator[Cramped]:
    root = tmp_path / "system"
    face = f'[listen.pravega]\naddress = "127.0.0.1:{free_port()}"\n'
    installation = Installation(root, pki.directory, receiver_extra=face)
    with tmpfs(installation.store, 24) as disk:
        try:
            yield Cramped(root, pki, disk, installation)
        finally:
            installation.close()


class Shipper(Native):
    """A minimal agent: goes back to the position of each P frame, and registers after a refusal."""

    async def ship(self, peer: NativePeer, end: int) -> None:
        """Deliver up to *end*, however often it is refused; *peer* must stay connected all the
        while.
        """
        registered, index = False, 0
        while self.position < end:
            if not registered:
                answer = await peer.register(index, self.origin)
                assert isinstance(answer, PositionFrame), answer
                self._hear(answer)
                registered = True
            upto = min(end, self.position + 4000 * LINE)
            last = await peer.send_window(run_of(index, self.position, upto))
            refused = False
            while (frame := await peer.next(20)) != AckFrame(last):
                refused = True
                if isinstance(frame, PositionFrame):
                    self._hear(frame)
                else:
                    assert isinstance(frame, RefusalFrame), frame
                    assert (frame.index, frame.code) == (index, RefusalCode.TRY_LATER), frame
                    assert ENOSPC in frame.text
                    self.refusals += 1
                    registered, index = False, index + 1
            if refused:
                await asyncio.sleep(0.05)
            else:
                self.position = upto
                self._promised.native[self.origin] = upto

    refusals = 0

    def _hear(self, position: PositionFrame) -> None:
        """Take the position told; it must hold all that was acknowledged."""
        assert position_of(position.number) >= self._promised.native.get(self.origin, 0)
        self.position = position_of(position.number)


def test_a_disk_that_is_full_for_a_while_costs_nobody_his_connection_or_a_line(
    cramped: Cramped,
) -> None:
    async def scene() -> None:
        idle, peer, beat = await cramped.native(), await cramped.native(), await cramped.foreign()
        shipper = Shipper(cramped.promised)
        await shipper.ship(peer, 10 * LINE)
        await _send(cramped, beat, "before")
        filler = cramped.disk.fill(but=300 * KIB)
        shipping = asyncio.create_task(shipper.ship(peer, 100_000 * LINE))
        await eventually(lambda: shipper.refusals >= 2, 20)
        # plain Lumberjack has no other way to say it
        with pytest.raises((TransientError, AssertionError)):
            await _send(cramped, beat, "during" + "x" * 400_000)
        line = await cramped.said.one_line(
            "warning",
            "writes to the store fail",
            ENOSPC,
            "log-0",
            "nothing is acknowledged until the disk has room",
        )
        assert str(cramped.installation.store) in line
        held = shipper.position
        assert not shipping.done()
        _cat(cramped, shipper, held)
        filler.unlink()
        await asyncio.wait_for(shipping, 30)
        again = await cramped.foreign()
        await _send(cramped, again, "after")
        assert isinstance(await idle.register(0, shipper.origin), PositionFrame)
        assert [
            bool(re.search(words, line))
            for words, line in zip(
                ("the store fail", "succeed again"), cramped.said.lines(), strict=True
            )
        ]
        for each in (idle, peer, again):
            await each.stream.close()

    asyncio.run(scene())
    cramped.end()


async def _send(cramped: Cramped, peer: Peer, what: str) -> None:
    """Deliver two events over plain Lumberjack."""
    events = [b'{"message":"%s %d"}' % (what.encode(), number) for number in range(2)]
    await peer.send(window_of(events))
    frame = await peer.next(20)
    assert frame == AckFrame(len(events)), f"{frame} instead of an acknowledgement"
    cramped.promised.foreign += events


def _cat(cramped: Cramped, shipper: Shipper, held: int) -> None:
    """Read what was stored over the face, which takes no room."""
    run = subprocess.run(
        command("store", "cat", f"file://{cramped.installation.store}#{STREAM}"),
        capture_output=True,
        timeout=30,
        check=True,
    )
    assert run.stdout.count(b"\n") >= held // LINE


def test_a_start_on_a_full_disk_serves_what_is_there_and_takes_more_once_there_is_room(
    cramped: Cramped,
) -> None:
    async def scene() -> None:
        shipper = Shipper(cramped.promised)
        peer = await cramped.native()
        await shipper.ship(peer, 10 * LINE)
        await peer.stream.close()
        filler = cramped.disk.fill()
        cramped.again()
        peer = await cramped.native()
        # more than the last page has room for
        shipping = asyncio.create_task(shipper.ship(peer, 5000 * LINE))
        await eventually(lambda: shipper.refusals >= 2, 20)
        lines = [line for line in cramped.said.lines() if "level=warning" in line]
        assert [
            bool(re.search(words, line))
            for words, line in zip(
                ("can't be published yet", "writes to the store fail"), lines, strict=True
            )
        ]
        assert not shipping.done()
        filler.unlink()
        await asyncio.wait_for(shipping, 30)
        await peer.stream.close()

    asyncio.run(scene())
    cramped.end()


def test_an_agent_outlasts_a_full_disk_and_delivers_every_byte_once(cramped: Cramped) -> None:
    system = cramped.installation
    content = {f"{name}.log": [text(0, 1000 * LINE)] for name in ("web", "db")}
    _append(system, content)
    agent = system.agent()
    system.await_acknowledged(2000 * LINE)
    filler = cramped.disk.fill(but=40 * KIB)
    for part in content.values():
        part.append(text(0, 20_000 * LINE))
    _append(system, content)
    _until(lambda: bool(cramped.said.lines()), 20, "the receiver says nothing of the full disk")
    time.sleep(2)
    assert [line for line in cramped.said.lines() if "writes to the store fail" in line], (
        cramped.said.lines()
    )
    # of which one is the agent's connection, if it came late
    assert len(cramped.said.lines()) <= 2, cramped.said.lines()
    assert agent.running()
    filler.unlink()
    system.await_acknowledged(2 * 21_000 * LINE)
    assert agent.terminate(30) == 0, agent.said()
    assert "Traceback" not in agent.log.read_text()
    cramped.end()
    assert set(system.ledger().by_data()) == {b"".join(parts) for parts in content.values()}


def _append(system: Installation, content: dict[str, list[bytes]]) -> None:
    for name, parts in content.items():
        with (system.logs / name).open("ab") as file:
            file.write(parts[-1])


def _until(condition: Callable[[], bool], seconds: float, otherwise: str) -> None:
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, otherwise
        time.sleep(0.05)
