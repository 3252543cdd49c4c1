"""Two well-behaved peers over real TLS, one of each dialect, that ship while somebody else
misbehaves; and what they were promised.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from uuid import UUID, uuid4

from logdrive.host.transport import ClientTls
from logdrive.model.identity import source_id
from logdrive.model.numbers import number_of
from logdrive.model.records import DATA, block_record
from logdrive.net.tcp import SystemTransport
from logdrive.wire.lumberjack.envelope import pack
from logdrive.wire.lumberjack.frames import (
    AckFrame,
    EnvelopeFrame,
    JsonRun,
    PositionFrame,
    RunFrame,
    WindowFrame,
)
from tests.logdrive.net.loopback import eventually
from tests.receiver.peers import NativePeer, Peer
from tests.support.ledger import Ledger

LINE = 20  # bytes
PATIENCE_SECONDS = 20.0
PAUSE_SECONDS = 0.004


@dataclass
class Promised:
    """What was acknowledged."""

    identity: str  # of the clients
    native: dict[UUID, int] = field(default_factory=dict)  # origin -> bytes of `text`
    foreign: list[bytes] = field(default_factory=list)  # events of plain peers

    def check(self, ledger: Ledger) -> None:
        """Find all of it in *ledger*; a plain peer's events may be there more than once."""
        for origin, position in self.native.items():
            delivered = ledger.sources[str(source_id(origin, self.identity))]
            assert delivered.position >= position, (
                f"{position} bytes were acknowledged, {delivered.position} are there"
            )
            assert delivered.data == text(0, delivered.position)
        stored = set(ledger.foreign)
        missing = [event for event in self.foreign if event not in stored]
        assert not missing, (
            f"{len(missing)} of {len(self.foreign)} acknowledged events are missing, "
            f"{missing[0]!r} is the first"
        )


def text(start: int, end: int) -> bytes:
    """Return bytes *start* to *end*, both at lines' ends, of the file that the native peer
    ships.
    """
    return b"".join(b"%0*d\n" % (LINE - 1, number) for number in range(start // LINE, end // LINE))


def at(position: int) -> int:
    """Return the number of *position* in that file."""
    return number_of(position, text(max(0, position - 13 * LINE), position)[-256:])


def run_of(index: int, start: int, end: int) -> tuple[RunFrame, list[bytes]]:
    """Return the run that takes that file from *start* to *end*."""
    lines = (end - start) // LINE
    run = RunFrame(index, DATA, at(start), at(end), 1_700_000_000_000, 0, lines, 1)
    return run, [block_record(start, end, lines, text(start, end).decode())]


class Native:
    """Ships one source over `logdrive/1`, window by window."""

    def __init__(self, promised: Promised) -> None:
        self._promised = promised
        self.origin = uuid4()
        self.position = 0
        self.windows = 0
        self.slowest = 0.0

    async def run(self, peer: NativePeer) -> None:
        answer = await peer.register(0, self.origin)
        assert isinstance(answer, PositionFrame), answer
        while True:
            began, end = time.monotonic(), self.position + 5 * LINE
            last = await peer.send_window(run_of(0, self.position, end))
            frame = await peer.next(PATIENCE_SECONDS)
            assert frame == AckFrame(last), f"{frame} instead of A {last}"
            self.position, self.windows = end, self.windows + 1
            self._promised.native[self.origin] = end
            self.slowest = max(self.slowest, time.monotonic() - began)
            await asyncio.sleep(PAUSE_SECONDS)


class Foreign:
    """Ships events over plain Lumberjack v2, window by window, each in an envelope."""

    def __init__(self, promised: Promised) -> None:
        self._promised = promised
        self.windows = 0
        self.slowest = 0.0

    async def run(self, peer: Peer) -> None:
        life = uuid4().hex
        while True:
            began = time.monotonic()
            events = [
                b'{"message":"%s %d %d"}' % (life.encode(), self.windows, number)
                for number in range(7)
            ]
            await peer.send(window_of(events))
            frame = await peer.next(PATIENCE_SECONDS)
            assert frame == AckFrame(len(events)), f"{frame} instead of A {len(events)}"
            self.windows += 1
            self._promised.foreign += events
            self.slowest = max(self.slowest, time.monotonic() - began)
            await asyncio.sleep(PAUSE_SECONDS)


def window_of(events: list[bytes]) -> bytes:
    """Return a v2 window as Beats send it: W, then one envelope."""
    return (
        WindowFrame(len(events)).encode()
        + EnvelopeFrame(pack(JsonRun.of(1, events).encode())).encode()
    )


@contextlib.asynccontextmanager
async def others_go_on(
    port: int, tls: ClientTls, promised: Promised, *, windows: int = 5, slowest: float = 4.0
) -> AsyncIterator[None]:
    """Let both peers ship while the context lasts; each must get *windows* acknowledgements, none
    later than after *slowest* s.
    """
    transport, native, foreign = SystemTransport(), Native(promised), Foreign(promised)
    plain = ClientTls(tls.ca, tls.cert, tls.key, tls.server_name)
    async with contextlib.AsyncExitStack() as leave, asyncio.TaskGroup() as group:
        one = NativePeer(await transport.connect("127.0.0.1", port, tls))
        leave.push_async_callback(one.stream.close)
        two = Peer(await transport.connect("127.0.0.1", port, plain), "lumberjack")
        leave.push_async_callback(two.stream.close)
        tasks = [group.create_task(native.run(one)), group.create_task(foreign.run(two))]
        try:
            await _until_both(native, foreign, 1)
            began = min(native.windows, foreign.windows)
            yield
            await _until_both(native, foreign, began + windows)
        finally:
            for task in tasks:
                task.cancel()
    for each in (native, foreign):
        assert each.slowest < slowest, (
            f"the {type(each).__name__.lower()} peer once waited {each.slowest:.1f} s"
        )


async def _until_both(native: Native, foreign: Foreign, windows: int) -> None:
    await eventually(lambda: min(native.windows, foreign.windows) >= windows, PATIENCE_SECONDS)
