"""Port to an input, such as files: what a connection needs before and after it reads a source.

`Readable` (`readable.py`) is the port to the bytes of one source; an input hands them to
`SourceRegistry.add_generation`.
"""

from typing import Protocol

from agent.sources.readable import SourceTruncatedError
from agent.sources.source import Source


class Input(Protocol):
    """One input. It alone opens what is read and decides that a generation has ended."""

    def open_source(self, source: Source) -> None:
        """Make a readable *source* ready for `read_lines`; called before each read.

        Raises OSError, which the caller passes to `on_read_failed`.
        """
        ...

    def verify_source(self, source: Source) -> bool:
        """Compare the bytes of *source* with what was read of it; called when a P frame came.

        If they differ, the input ends the generation: `source.ended` is set on return. Return False
        if they can't be read now; the source is then refused for a while.
        """
        ...

    def on_read_failed(self, source: Source, error: SourceTruncatedError | OSError) -> None:
        """Handle the *error* that reading *source* raised.

        After a `SourceTruncatedError` the generation is to be ended. After an OSError the input
        enqueues the source again once it can be read.
        """
        ...
