"""A reader of `logdrive/1` whose store is a dict, and which can misbehave on purpose.

It has the rules D2, D3 and P1 in their simplest form. It keeps what it accepted of each source, and
checks each run for what no writer may break: it follows the stored number, its records tile its
interval, and nothing comes after an end. It shares no code with agent or receiver.
"""

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal
from uuid import UUID

import orjson

from logdrive.errors import ProtocolError, TransientError
from logdrive.host.transport import ByteStream
from logdrive.model.identity import source_id
from logdrive.model.numbers import ABSENT, position_of
from logdrive.model.records import DATA, END
from logdrive.wire.lumberjack.frames import (
    CONNECTION,
    AckFrame,
    PositionFrame,
    RefusalCode,
    RefusalFrame,
    RunFrame,
)
from logdrive.wire.lumberjack.frames import SourceFrame as SourceFrame
from logdrive.wire.lumberjack.limits import LOGDRIVE_1
from logdrive.wire.lumberjack.reader import FrameReader
from logdrive.wire.lumberjack.run_reader import RunReader, RunReceived
from tests.agent.inputs.files.rebuild import rebuilt
from tests.support.packs import unpacked

Piece = tuple[int, int, bytes]
"""start, end, and the bytes; or, for a gap, its reason."""


@dataclass
class Stored:
    """What is stored of one source."""

    path: str
    attributes: dict[str, object]
    number: int = ABSENT
    data: list[Piece] = field(default_factory=list)
    gaps: list[tuple[int, int, str, bool]] = field(default_factory=list)
    ended: tuple[int, str] | None = None
    end_exact: bool | None = None  # what the end record says
    events: int = 0

    @property
    def content(self) -> bytes:
        """All data, in order."""
        return b"".join(piece for _, _, piece in self.data)

    def copy(self) -> "Stored":
        """Return the same, as a backup holds it."""
        return Stored(
            self.path,
            self.attributes,
            self.number,
            list(self.data),
            list(self.gaps),
            self.ended,
            self.end_exact,
            self.events,
        )


class ReaderModel:
    """Accepts connections; `stored` by source id. Change the attributes at will."""

    def __init__(self, name: str = "store") -> None:
        self.store = UUID(bytes=name.encode().ljust(16, b"\0")[:16])
        self.stored: dict[UUID, Stored] = {}
        self.ack_seconds = 0.001
        self.silent = False
        """Nothing is answered any more, not even by keepalives."""
        self.fail: Callable[[RunFrame], bool] = lambda run: False
        """Tells whether the sink fails a run."""
        self.full = False
        """The sink fails every run: after three of a source E 3 says so."""
        self.refuse: Callable[[SourceFrame], tuple[int, str] | None] = lambda frame: None
        """Tells with which E a source is refused."""
        self.number_for: Callable[[UUID, int], int] = lambda source, number: number
        """Tells what P says instead of the stored number."""
        self.packs: Literal["taken", "refused", "hung up on"] = "taken"
        """What becomes of Z frames; readers of the version before refuse them by an E."""
        self.registered: list[SourceFrame] = []
        self.most_unanswered = 0
        self.packs_stored = 0
        self.refused_runs = 0
        self.windows = 0
        self.connections = 0
        self.streams: list[ByteStream] = []

    def by_path(self, path: str) -> list[Stored]:
        """Return the sources of *path*, in the order of their first registration."""
        return [
            stored
            for stored in self.stored.values()
            if stored.path == path and stored.number != ABSENT
        ]

    def backup(self) -> dict[UUID, Stored]:
        """Return what a restored store would hold."""
        return {source: stored.copy() for source, stored in self.stored.items()}

    async def accept(self, stream: ByteStream) -> None:
        """Serve one connection."""
        self.connections += 1
        self.streams.append(stream)
        await _Connection(self, stream).run()

    async def drain(self, code: int = 0, text: str = "draining") -> None:
        """Send every connection away with an E."""
        for stream in self.streams:
            try:
                await stream.write([RefusalFrame(CONNECTION, code, text).encode()])
                await stream.close()
            except TransientError:
                pass
        self.streams.clear()


class _PackRefusedError(Exception):
    """A pack came, and this reader takes none."""


class _Connection:
    def __init__(self, model: ReaderModel, stream: ByteStream) -> None:
        self.model, self.stream = model, stream
        self.reader = FrameReader(LOGDRIVE_1, side="reader", dialect="detect")
        self.runs = RunReader()
        self.sources: dict[int, UUID | None] = {}
        self.told: dict[int, int | None] = {}
        self.corrections: dict[int, int] = {}
        self.unanswered = 0
        self.out: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            sender = group.create_task(self._send())
            try:
                while data := await self.stream.read():
                    self._take(data)
            except TransientError:
                pass
            except _PackRefusedError:
                await self._refuse_pack()
            except ProtocolError as error:
                raise AssertionError(f"the agent broke the protocol: {error}") from error
            sender.cancel()

    async def _refuse_pack(self) -> None:
        refusal = RefusalFrame(CONNECTION, RefusalCode.PROTOCOL, "a frame that begins b'2Z'")
        with contextlib.suppress(TransientError):
            if self.model.packs == "refused":
                await self.stream.write([refusal.encode()])
            await self.stream.close()

    async def _send(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            due, data = await self.out.get()
            await asyncio.sleep(max(0.0, due - loop.time()))
            if not self.model.silent:
                try:
                    await self.stream.write([data])
                except TransientError:
                    return
            if data[1:2] == b"P":
                self.unanswered = max(0, self.unanswered - 1)

    def _put(self, data: bytes) -> None:
        self.out.put_nowait((asyncio.get_running_loop().time() + self.model.ack_seconds, data))

    def _take(self, data: bytes) -> None:
        for given in self.runs.check_frames(
            self.reader.receive_data(data), offset=self.reader.offset
        ):
            if isinstance(given, SourceFrame):
                self._source(given)
            elif isinstance(given, RunReceived):
                self._run(given)
            else:
                self.model.windows += 1
                self._put(AckFrame(given.last).encode())

    def _source(self, frame: SourceFrame) -> None:
        if not frame.attributes:
            self.sources.pop(frame.index, None)
            return
        model = self.model
        model.registered.append(frame)
        if (refusal := model.refuse(frame)) is not None:
            self.sources[frame.index] = None
            self._put(RefusalFrame(frame.index, *refusal).encode())
            return
        source = source_id(frame.origin, self.stream.peer.identity)
        attributes = orjson.loads(frame.attributes)
        model.stored.setdefault(
            source, Stored(attributes["path"], attributes)
        ).attributes = attributes
        self.sources[frame.index] = source
        self.told[frame.index] = None
        self.unanswered += 1
        model.most_unanswered = max(model.most_unanswered, self.unanswered)
        self._tell(frame.index, source)

    def _tell(self, index: int, source: UUID) -> None:
        number = self.model.stored[source].number
        self._put(
            PositionFrame(index, self.model.number_for(source, number), self.model.store).encode()
        )

    def _run(self, received: RunReceived) -> None:
        run, model = received.run, self.model
        if received.pack is not None and model.packs != "taken":
            raise _PackRefusedError
        source = self.sources[run.index]
        if source is None:
            return
        stored = model.stored[source]
        follows = run.previous == max(stored.number, 0)
        if not follows or model.full or model.fail(run):
            model.refused_runs += 1
            if self.told[run.index] != stored.number or follows:
                self._correct(run.index, source, stored)
            return
        self.told[run.index] = None
        self.corrections[run.index] = 0
        self._store(stored, received)

    def _correct(self, index: int, source: UUID, stored: Stored) -> None:
        self.told[index] = stored.number
        self._tell(index, source)
        self.corrections[index] = self.corrections.get(index, 0) + 1
        if self.corrections[index] == 3:
            self.sources[index] = None
            code, text = (3, "no space left") if self.model.full else (6, "no progress")
            self._put(RefusalFrame(index, code, text).encode())

    def _store(self, stored: Stored, received: RunReceived) -> None:
        run, payloads = received.run, received.payloads
        assert stored.ended is None, f"a run after the end of {stored.path}"
        previous, position = position_of(run.previous), position_of(run.number)
        if received.pack is not None:
            self._store_pack(stored, run, received.pack.form.in_header, payloads[0])
        elif run.kind == DATA:
            data, events = rebuilt(payloads, previous)
            assert previous + len(data) == position, (
                f"{len(data)} bytes from {previous} to {position}"
            )
            assert events == run.events
            stored.data.append((previous, position, data))
            stored.events += events
        else:
            log = orjson.loads(payloads[0])["log"]
            if run.kind == END:
                stored.ended = (log["ended"]["end"], log["ended"]["reason"])
                stored.end_exact = log["ended"].get("end_exact", True)
                assert log["ended"]["end"] == position == previous
            else:
                gap = log["gap"]
                assert (gap["start"], gap["end"]) == (previous, position)
                stored.gaps.append((gap["start"], gap["end"], gap["reason"], gap["end_exact"]))
        stored.number = run.number

    def _store_pack(self, stored: Stored, run: RunFrame, form: str, pack: bytes) -> None:
        header = {
            "form": form,
            "previous": position_of(run.previous),
            "position": position_of(run.number),
            "events": run.events,
            "skipped": run.skipped,
        }
        held = unpacked(pack, header)
        stored.data += [(start, start + len(data), data) for start, data in held.pieces]
        stored.events += held.events
        self.model.packs_stored += 1
