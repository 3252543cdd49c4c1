"""What a connection asks of the input that a source's bytes come from."""

from typing import Protocol

from agent.sources.readable import SourceTruncatedError
from agent.sources.source import Source


class Input(Protocol):
    """An input, to those who read its sources.

    It alone judges whether a life goes on, and opens what is read.
    """

    def open_source(self, source: Source) -> None:
        """Make *source*, which is readable, ready for the next read. Raises OSError."""
        ...

    def verify_source(self, source: Source) -> bool:
        """Make sure that *source* can be read and still is what it was; it may have ended by that.

        False where neither can be told.
        """
        ...

    def on_read_failed(self, source: Source, error: SourceTruncatedError | OSError) -> None:
        """Act on what reading *source* raised."""
        ...
