"""What a session does that depends on the dialect."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Literal, Protocol

from agent.config import OutputTable
from agent.delivery.reader import SourceReader
from agent.delivery.window import WindowRoom
from agent.records.batch import Run
from agent.sources.input import Input
from agent.sources.queue import SendQueue
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.errors import TransientError
from logdrive.host.clock import Clock
from logdrive.host.executor import Executor
from logdrive.wire.lumberjack.envelope import Codec
from logdrive.wire.lumberjack.frames import Frame
from logdrive.wire.lumberjack.reader import FrameReader

SentRuns = list[tuple[Source, int, Run]]
"""The runs of a window, each with its source and the epoch in which it was sent."""


@dataclass(frozen=True, slots=True)
class SessionServices:
    """What every session of an agent works with."""

    registry: SourceRegistry
    send_queue: SendQueue
    input: Input
    source_reader: SourceReader
    clock: Clock
    executor: Executor
    random: Random
    settings: OutputTable
    log: Any


class ReceiverRefusedError(TransientError):
    """The receiver ended the connection with an E; *code* is its reason."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(f"refused by the receiver (E {code}): {text}")
        self.code = code


class EndedError(TransientError):
    """The connection ended.

    *idle*: while nothing was awaited, as receivers do with connections that rest.
    """

    def __init__(self, reason: str, *, idle: bool) -> None:
        super().__init__(reason)
        self.idle = idle


class SendingDialect(Protocol):
    """One dialect on one connection."""

    numbering: Literal["window", "connection"]
    version: bytes
    """The version byte of its frames."""
    codec: Codec | None
    room: WindowRoom
    frame_reader: FrameReader
    reconnect_at: float | None
    """When to end the connection once it is settled, to look for a better one."""

    @property
    def awaits_answer(self) -> bool:
        """Whether the peer owes an answer other than an acknowledgement."""
        ...

    @property
    def open_sources(self) -> int:
        """How many sources may send."""
        ...

    def on_connected(self) -> None:
        """Start on the connection."""
        ...

    def registration_frames(self) -> list[bytes]:
        """Return frames that register sources, as many as may be unanswered."""
        ...

    def retry_refused(self) -> float | None:
        """Let refused sources whose pause is over ask again; return when the next one is."""
        ...

    def encode_runs(self, runs: Sequence[tuple[Source, int, Run]]) -> list[bytes]:
        """Return the frames of a window's runs, and take their sequence numbers."""
        ...

    def on_frame(self, frame: Frame) -> None:
        """Act on a frame that is no acknowledgement."""
        ...

    def on_source_finished(self, source: Source) -> None:
        """Take notice that *source* was acknowledged to its end."""
        ...

    def on_disconnected(self) -> None:
        """Let go of everything: the connection is over."""
        ...
