"""Port to a dialect: what a session leaves to `logdrive/1` or to plain Lumberjack."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, Protocol

from agent.config.output import OutputTable
from agent.delivery.reader import SourceReader
from agent.delivery.refusals import ReceiverRefusals
from agent.delivery.spread import SourceSpread
from agent.delivery.window import WindowRoom
from agent.sources.connection_queue import ConnectionQueue
from agent.sources.file_log import FileLog
from agent.sources.input import Input
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.errors import TransientError
from logdrive.host.clock import Clock
from logdrive.host.executor import Executor
from logdrive.records.run_pack import FramePart
from logdrive.records.runs import Run
from logdrive.wire.lumberjack.envelope import Codec
from logdrive.wire.lumberjack.frames import Frame
from logdrive.wire.lumberjack.reader import FrameReader

SentRuns = list[tuple[Source, int, Run]]
"""The runs of a window, each with its source and the epoch in which it was sent."""


@dataclass(frozen=True, slots=True)
class SessionServices:
    """The parts of an agent that the sessions of one connection work with, one after another."""

    registry: SourceRegistry
    """All sources that the agent knows."""

    send_queue: ConnectionQueue
    """Those of the connection's sources that need to register or have data to send."""

    spread: SourceSpread
    """Gives sources to connections."""

    input: Input
    """Opens and verifies the files of sources."""

    source_reader: SourceReader
    """Reads and encodes the next run of a source."""

    clock: Clock
    executor: Executor
    """Packs windows in threads."""

    random: Random
    """Chooses the first host, and makes pauses uneven."""

    settings: OutputTable
    """The [output] table."""

    log: Any
    file_log: FileLog
    """Log lines of which there may be one for each file."""

    def sources(self) -> Iterable[Source]:
        """Yield the sources that live on the connection. Takes about 30 ns for each that is."""
        number = self.send_queue.number
        return [source for source in self.registry.sources if source.connection == number]


class ReceiverRefusedError(TransientError):
    """The receiver ended the connection with an E frame; *code* is its reason (`RefusalCode`)."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"refused by the receiver (E {code}): {text}")
        self.code = code


class EndedError(TransientError):
    """The connection ended; *idle*: while no answer was awaited, as receivers close idle ones."""

    def __init__(self, reason: str, *, idle: bool) -> None:
        super().__init__(reason)
        self.idle = idle


class GivenUpError(EndedError):
    """The agent ended the connection, because its peer kept it waiting."""


class RetiredError(EndedError):
    """The agent ended the connection with nothing in flight, to make it anew: no failure."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, idle=False)


class SendingDialect(Protocol):
    """One dialect on one connection. A `SenderSession` makes all the calls, from one task each.

    `on_connected` comes first and `on_disconnected` last. In between, the session asks for frames
    whenever it may send, in the order `retry_refused`, `registration_frames`, `encode_runs`, and
    hands over what it reads.
    """

    numbering: Literal["window", "connection"]
    """Whether sequence numbers start at 1 in each window, or run on over the connection."""
    version: bytes
    """The version byte of its frames."""
    codec: Codec | None
    """How windows are compressed; None for not at all."""
    room: WindowRoom
    """The limits of a window."""
    frame_reader: FrameReader
    """Cuts what is read into frames."""
    refusals: ReceiverRefusals
    """The refusals of sources for the peer's own state; the session clears them."""
    reconnect_at: float | None
    """When to end a settled connection and look for a better dialect (monotonic seconds)."""

    @property
    def awaits_answer(self) -> bool:
        """Whether the peer owes an answer other than an acknowledgement."""
        ...

    @property
    def open_sources(self) -> int:
        """How many sources may send."""
        ...

    def on_connected(self) -> None:
        """Fill the send queue for this connection, on which no source is registered."""
        ...

    def registration_frames(self) -> list[bytes]:
        """Return frames that register sources of the send queue, as many as may be unanswered."""
        ...

    def retry_refused(self) -> float | None:
        """Let refused sources register again whose pause is over.

        Return when the next pause ends (monotonic seconds); None without one.
        """
        ...

    def encode_runs(self, runs: Sequence[tuple[Source, int, Run]]) -> list[FramePart]:
        """Return the frames of a window's *runs*, which take the next sequence numbers.

        Their packs need not be compressed yet.

        Raises `TransientError` if the connection has no sequence numbers left.
        """
        ...

    def on_frame(self, frame: Frame) -> None:
        """Handle a *frame* that is no acknowledgement.

        Raises `ReceiverRefusedError` or `ProtocolError`, which end the connection.
        """
        ...

    def on_source_finished(self, source: Source) -> None:
        """Forget *source*, whose end record was acknowledged, and finish it in the registry."""
        ...

    def release_source(self, source: Source) -> None:
        """Unregister *source*, which leaves the connection: nothing of it is in flight or asked."""
        ...

    def on_disconnected(self) -> None:
        """Unregister all sources: the connection is over, for whatever reason."""
        ...
