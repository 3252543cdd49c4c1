"""Records the end of a generation with its source (rules G3, P3)."""

from collections.abc import Callable

from agent.inputs.files.file import Generation
from agent.sources.identity import Fingerprinter, FirstLine, Identity
from agent.sources.incarnation_search import Counting
from agent.sources.queue import SendQueue
from agent.sources.registry import SourceRegistry
from agent.sources.source import Source
from logdrive.host.clock import Clock
from logdrive.records.blocks import Encoder
from logdrive.records.chunk import TextChunk
from logdrive.records.runs import GapOrEndMark


class EndRecorder:
    """Adds end records to sources, and makes sources for files that end without a first line."""

    def __init__(
        self,
        registry: SourceRegistry,
        send_queue: SendQueue,
        *,
        fingerprinter: Fingerprinter,
        clock: Clock,
        encoder_of: Callable[[Source], Encoder],
    ) -> None:
        self._registry = registry
        self._send_queue = send_queue
        self._fingerprinter = fingerprinter
        self._clock = clock
        self._encoder_of = encoder_of

    def record_end(
        self, generation: Generation, source: Source | None, head: bytes, mark: GapOrEndMark
    ) -> None:
        """End *source* as *mark* says, and enqueue it, so that its end record is sent.

        If the generation had no first line, *head* are all its bytes: they become the only line of
        a new source (rule P3). Without any bytes there is nothing to record.
        """
        if (
            source is None
            and (source := self.make_source(generation, head, Counting.KNOWN)) is not None
        ):
            # encoded now: the file can't be read any more
            chunk = TextChunk.from_whole_file(head)
            generation.on_whole_file_read(head)
            source.add_runs(self._encoder_of(source).encode_chunk(chunk, 0, self._clock.now_ms()))
        if source is not None:
            self._end(source, mark)

    def make_source(self, generation: Generation, head: bytes, counting: Counting) -> Source | None:
        """Return a source for what begins with *head*, and is gone; None without any bytes."""
        place = generation.place
        line_end = generation.settings.line_end_bytes
        first_line = FirstLine.find_in(head, ended=True, line_end=line_end)
        if first_line is None:
            return None
        identity = Identity(
            self._fingerprinter.agent,
            self._fingerprinter.host,
            place.mount,
            place.inode,
            place.birth_ns,
            first_line.text,
        )
        generation.set_first_line(first_line)
        return self._registry.add_generation(generation, identity, counting)

    def _end(self, source: Source, mark: GapOrEndMark) -> None:
        source.end_generation(mark, self._clock.now_ms())
        self._registry.mark_changed()
        self._send_queue.enqueue(source, self._clock.monotonic())
