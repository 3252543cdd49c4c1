"""Source reader: returns the next run of a source, read and encoded only when it is asked for.

All reading for delivery happens here.
"""

from collections.abc import Callable

from agent.sources.input import Input
from agent.sources.readable import Readable, SourceTruncatedError
from agent.sources.source import Source
from logdrive.host.clock import Clock
from logdrive.records.blocks import Encoder
from logdrive.records.runs import SHIPPED, GapOrEndMark, Run, make_gap_run


class SourceReader:
    """Reads a chunk at a time, so that memory holds no more than the connection has room for."""

    def __init__(
        self, source_input: Input, clock: Clock, encoder_of: Callable[[Source], Encoder]
    ) -> None:
        self._input = source_input
        self._clock = clock
        self._encoder_of = encoder_of  # the encoder of a source, for this connection

    def read_next_run(self, source: Source) -> Run | None:
        """Return the next run of *source* and count it as sent; None if there is none now."""
        if source.withheld:
            return None
        run = source.next_unsent_run()
        if run is None and source.has_more:
            self._read(source)
            run = source.next_unsent_run()
        return run

    def waits_until(self, source: Source) -> float | None:
        """Return the monotonic time before which *source* is not read, because of its rate."""
        if source.events is None or source.events.rate is None:
            return None
        return source.events.rate.waits_until

    def _read(self, source: Source) -> None:
        """Add the next runs to *source*: a gap, lines, or its end record."""
        generation, now_ms = source.generation, self._clock.now_ms()
        assert generation is not None
        try:
            self._input.open_source(source)
            if (gap := source.due_gap) is not None:
                number = generation.number_at(gap.end)
                source.add_runs([make_gap_run(source.cursor, number, gap.mark, now_ms)])
                generation.resume_from(number)  # the next read begins there
            elif not self._read_lines(source, generation, now_ms) and source.end_is_due:
                source.end_generation(GapOrEndMark(SHIPPED), now_ms)
        except (SourceTruncatedError, OSError) as error:
            self._input.on_read_failed(source, error)

    def _read_lines(self, source: Source, generation: Readable, now_ms: int) -> bool:
        """Add the runs of the next lines to *source*; return whether there were any."""
        encoder = self._encoder_of(source)
        if self.waits_until(source) is not None:
            return False
        chunk = generation.read_lines(
            self._clock.monotonic(), limit=encoder.chunk_bytes, longest=encoder.longest_line
        )
        if chunk is None:
            return False

        runs = encoder.encode_chunk(chunk, source.cursor, now_ms)
        source.add_runs(runs)
        # the encoder stops early where the runs get too many: the rest is read again
        if runs[-1].position < generation.position:
            generation.give_back(chunk, runs[-1].position)
        return True
