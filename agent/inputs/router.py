"""Passes each call of a connection on to the input that its source comes from."""

from collections.abc import Mapping

from agent.sources.input import Input
from agent.sources.readable import SourceTruncatedError
from agent.sources.source import Source


class InputRouter:
    """The agent's `Input`: one for each kind of `Readable`."""

    def __init__(self, inputs: Mapping[type, Input]) -> None:
        """Route by the class of a source's generation; *inputs* has every class there is."""
        self._inputs = inputs

    def open_source(self, source: Source) -> None:
        """Make *source* ready; see `Input`."""
        self._input_of(source).open_source(source)

    def verify_source(self, source: Source) -> bool:
        """Compare the bytes of *source*; see `Input`. One without bytes can't differ."""
        return source.generation is None or self._input_of(source).verify_source(source)

    def on_read_failed(self, source: Source, error: SourceTruncatedError | OSError) -> None:
        """Handle the *error* of a read; see `Input`."""
        self._input_of(source).on_read_failed(source, error)

    def _input_of(self, source: Source) -> Input:
        return self._inputs[type(source.generation)]
