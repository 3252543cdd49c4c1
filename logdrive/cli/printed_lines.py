"""Prints the lines of a stream on standard output."""

import sys
from collections.abc import AsyncIterator, Sequence

from logdrive.cli.output import print_error
from logdrive.model.units import MIB
from logdrive.services.whole_lines import HELD_BYTES, SourceText, WholeLines


async def print_lines(texts: AsyncIterator[SourceText]) -> None:
    """Print *texts*, each line in one piece; at the end, or when stopped, also unfinished lines.

    Holds up to `HELD_BYTES` of these meanwhile. Raises what *texts* raises.
    """
    lines = WholeLines(_warn)
    try:
        async for source, text in texts:
            _write(lines.receive_text(source, text))
    finally:
        _write(lines.take_rest())


def _write(parts: Sequence[bytes]) -> None:
    if parts:
        sys.stdout.buffer.writelines(parts)
        sys.stdout.buffer.flush()


def _warn(source: str) -> None:
    print_error(
        f"a line of source {source or 'unknown'} is printed in parts, with lines of other sources "
        f"between them: no more than {HELD_BYTES // MIB} MiB of unfinished lines are held"
    )
