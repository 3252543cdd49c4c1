"""From a source to its next run: what is kept already, else read and encoded now.

The only place where reading happens.
"""

from collections.abc import Callable

from agent.records.batch import NOT_WANTED, SHIPPED, Mark, Run, data_runs, gap_run
from agent.records.blocks import Encoder
from agent.sources.input import Input
from agent.sources.readable import SourceTruncatedError
from agent.sources.source import Source
from logdrive.host.clock import Clock


class SourceReader:
    """Reads only when asked for a run, so that nothing is in memory that the connection has no room
    for.
    """

    def __init__(
        self, source_input: Input, clock: Clock, encoder_of: Callable[[Source], Encoder]
    ) -> None:
        self._input, self._clock, self._encoder_of = source_input, clock, encoder_of

    def read_next_run(self, source: Source) -> Run | None:
        """Return the next run of *source* and count it as sent, None where there is none now."""
        run = source.next_unsent_run()
        if run is None and source.has_more:
            self._read(source)
            run = source.next_unsent_run()
        return run

    def _read(self, source: Source) -> None:
        generation, now_ms = source.generation, self._clock.now_ms()
        assert generation is not None
        try:
            self._input.open_source(source)
            if source.gap_is_due:
                number = generation.number_at(generation.start)
                source.add_runs([gap_run(source.cursor, number, Mark(NOT_WANTED), now_ms)])
                generation.resume_from(number)
            elif (chunk := generation.read_lines(self._clock.monotonic())) is not None:
                runs = data_runs(
                    chunk, self._encoder_of(source).encode(chunk), source.cursor, now_ms
                )
                source.add_runs(runs)
                if runs[-1].position < generation.position:  # the encoder had enough
                    generation.give_back(chunk, runs[-1].position)
            elif source.end_is_due:
                source.end_generation(Mark(SHIPPED), now_ms)
        except (SourceTruncatedError, OSError) as error:
            self._input.on_read_failed(source, error)
