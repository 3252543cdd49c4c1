"""Peers that send packs whose inside lies, among honest ones, and what must come of it.

A receiver stores what it can't tell from an honest pack. Whoever opens it quarantines it whole, and
the audit names its source and interval. Nothing else is harmed.
"""

import asyncio
import struct
from random import Random
from typing import Final
from uuid import UUID, uuid5

import orjson

from logdrive.errors import LogdriveError, TransientError
from logdrive.host.transport import ByteStream, ClientTls
from logdrive.model.identity import source_id
from logdrive.model.numbers import NOT_KEPT, position_of
from logdrive.model.records import DATA
from logdrive.wire.lumberjack.frames import (
    AckFrame,
    PositionFrame,
    RefusalFrame,
    RunFrame,
    SourceFrame,
    WindowFrame,
)
from logdrive.wire.lumberjack.limits import LOGDRIVE_1
from logdrive.wire.lumberjack.reader import FrameReader
from tests.simulation.hosts.versions import NATIVE, PACKED
from tests.simulation.peers.lies import PackRun, honest, loud_lie, quiet_lie, rest_of
from tests.support.memory.transport import MemoryNetwork

_SPACE: Final = UUID("5d0fca9d-1bc5-4a67-8dd1-6b7b4ec6a8ce")
_Z: Final = struct.Struct("!2sII")
_PATIENCE_SECONDS = 30.0  # limit on the wait for an answer
_PAUSE_SECONDS = 1.0  # between two connections
_READ_MS = 1_700_000_000_000  # when its runs were read, as it says
_LOUD = 0.1
"""Share of runs before which a loud lie is sent, which ends the connection."""


class LiesSource:
    """One source of a liar: its runs, from position 0 on."""

    def __init__(self, name: str, index: int, identity: str) -> None:
        self.index = index
        self.origin = uuid5(_SPACE, f"{name} {index}")
        self.source = str(source_id(self.origin, identity))
        self.attributes = orjson.dumps({"host": name, "path": f"/lies/{index}.log"})
        self.runs: list[PackRun] = []
        # position up to which all is acknowledged
        self.acknowledged = 0

    @property
    def end(self) -> int:
        """The position after the last run."""
        return self.runs[-1].position if self.runs else 0

    @property
    def text(self) -> bytes:
        """The file from position 0 on, as the honest runs have it."""
        return b"".join(run.text for run in self.runs)

    def next_run(self, position: int) -> PackRun | None:
        """Return the run that begins at *position*; None at the end.

        A receiver that opens packs may have stored a part of one before it died.
        """
        run = next((run for run in self.runs if position < run.position), None)
        return run if run is None or run.previous == position else rest_of(run, position)


class Liar:
    """A writer of `logdrive/1` with one window in flight; *hosts* are tried in turn."""

    def __init__(
        self, name: str, hosts: list[str], network: MemoryNetwork, random: Random, *, tls: bool
    ) -> None:
        self.name = name
        identity = f"cn:{name}" if tls else ""
        self.sources = [LiesSource(name, index, identity) for index in range(2)]
        self._hosts, self._network, self._random = hosts, network, random
        alpn = (PACKED, NATIVE)
        self._tls = ClientTls("ca.pem", "client.pem", "client.key", alpn=alpn) if tls else None
        # the loud lie that a receiver acknowledged; "" for none
        self.taken = ""
        # set when a run is added
        self._more = asyncio.Event()

    @property
    def settled(self) -> bool:
        """True if all runs are acknowledged."""
        return all(source.acknowledged == source.end for source in self.sources)

    def lie(self, runs: int) -> None:
        """Add *runs* to those to send."""
        pick = self._random
        for _ in range(runs):
            source = pick.choice(self.sources)
            source.runs.append(pick.choice((honest, honest, quiet_lie))(pick, source.end))
        self._more.set()

    def tell(self, lie: str) -> PackRun:
        """Add an honest run to each source, and between two of the first one *lie*; return that."""
        first, pick = self.sources[0], self._random
        for source in self.sources:
            source.runs.append(honest(pick, source.end))
        told = quiet_lie(pick, first.end, lie)
        first.runs.append(told)
        first.runs.append(honest(pick, first.end))
        self._more.set()
        return told

    def forget(self) -> None:
        """Forget what was acknowledged: it may be lost rightly."""
        for source in self.sources:
            source.acknowledged = 0
        self._more.set()

    async def run(self) -> None:
        """Send runs on one connection after the other; never returns."""
        turn = 0
        while True:
            while self.settled:
                self._more.clear()
                await self._more.wait()
            try:
                await self._serve(self._hosts[turn % len(self._hosts)])
            except (LogdriveError, TimeoutError):
                turn += 1
                await asyncio.sleep(_PAUSE_SECONDS)

    async def _serve(self, host: str) -> None:
        """Send what is left to *host*. Raises the error that ends the connection."""
        transport = self._network.host(self.name, f"cn:{self.name}")
        stream = await transport.connect(host, 5044, self._tls)
        try:
            if stream.peer.secure and stream.peer.alpn != PACKED:
                raise TransientError("no packs may be sent")
            connection = _Connection(stream)
            for source in self.sources:
                await self._send(source, connection)
        finally:
            await stream.close()

    async def _send(self, source: LiesSource, connection: "_Connection") -> None:
        if source.acknowledged == source.end:
            return
        number = await connection.register(source)
        # no numbers are kept there: go on from what was acknowledged
        if number == NOT_KEPT:
            number = _number(source.acknowledged)
        source.acknowledged = max(source.acknowledged, position_of(number))
        while (run := source.next_run(position_of(number))) is not None:
            if self._random.random() < _LOUD:
                lie = loud_lie(self._random, run.previous)
                if await connection.send(source, lie, number) is None:
                    self.taken = lie.lie
            told = await connection.send(source, run, number)
            number = _number(run.position) if told is None else told
            source.acknowledged = max(source.acknowledged, position_of(number))


def _number(position: int) -> int:
    """Return the number of *position*, with check bits that do not matter (rule P1)."""
    return position << 16 | 1 if position else 0


class _Connection:
    """One connection of a liar."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._reader = FrameReader(LOGDRIVE_1, side="writer", dialect="logdrive/1")
        self._sequence = 0

    async def register(self, source: LiesSource) -> int:
        """Register *source*; return its number."""
        frame = SourceFrame(source.index, source.origin, source.attributes)
        await self._stream.write([frame.encode()])
        while (number := await self._answer(source)) is None:
            pass  # the acknowledgement of a window that a P had answered already
        return number

    async def send(self, source: LiesSource, run: PackRun, number: int) -> int | None:
        """Send *run* after *number*, as a window of its own.

        Return None once it is acknowledged, or the number that a P tells.
        """
        self._sequence += 1
        numbers = max(number, 0), _number(run.position)
        begin = RunFrame(source.index, DATA, *numbers, _READ_MS, run.skipped, run.events, 1)
        head = _Z.pack(b"2Z", self._sequence, len(run.pack))
        await self._stream.write([WindowFrame(1).encode(), begin.encode(), head + run.pack])
        return await self._answer(source)

    async def _answer(self, source: LiesSource) -> int | None:
        """Return the number in a P, None for an acknowledgement. Raises `TransientError`."""
        while True:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                data = await self._stream.read()
            if not data:
                raise TransientError("the receiver has ended")
            frames = list(self._reader.receive_data(data))
            # also behind a P: what is sent for a refused source is acknowledged, and not stored
            for frame in frames:
                if isinstance(frame, RefusalFrame):
                    raise TransientError(f"refused: {frame.text}")
            for frame in frames:
                if isinstance(frame, PositionFrame) and frame.index == source.index:
                    return frame.number
                if isinstance(frame, AckFrame) and frame.sequence == self._sequence != 0:
                    return None
