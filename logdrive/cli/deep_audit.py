"""`logdrive pipeline audit --deep`: opens every pack of the stream that tables were read from."""

import sys
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from logdrive.cli.access import AccessOptions
from logdrive.cli.output import escape_unprintable
from logdrive.pipeline.audit.deep import audit_packs
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.read.connect import open_stream
from logdrive.pipeline.resume import require_segments
from logdrive.services.reader import SegmentState, ServiceReader
from logdrive.services.stored_packs import StoredPacks


def audit_stream(directory: str, uri: str, access: AccessOptions) -> StoredPacks:
    """Open every pack of the stream *uri*, with a progress bar on a terminal.

    Raises `click.BadParameter` if the tables in *directory* were not read from it, and as
    `open_stream` and `audit_packs` do.
    """
    with open_stream(uri, access.tls, access.login) as stream:
        segments = require_segments(stream, uri)
        _require_stream_of_tables(directory, segments, uri)
        return _audit_with_bar(stream, segments)


def print_packs(packs: StoredPacks) -> None:
    """Print what was found, on standard output."""
    for fault in packs.faults:
        print(escape_unprintable(fault.text))
    more = packs.faulty - len(packs.faults)
    faulty = f"{packs.faulty:,} of them can't be opened" if packs.faulty else "all of them whole"
    unnamed = f", {more:,} of which are not named above" if more else ""
    noun = "pack" if packs.opened == 1 else "packs"
    print(f"{packs.opened:,} {noun} in the stream, {faulty}{unnamed}")


def pack_figures(packs: StoredPacks) -> dict[str, Any]:
    """Return what `--json` prints of them."""
    return {
        "packs": packs.opened,
        "faulty_packs": packs.faulty,
        "pack_faults": [fault._asdict() for fault in packs.faults],
    }


def _require_stream_of_tables(directory: str, segments: list[SegmentState], uri: str) -> None:
    _, batches = open_tables(directory)
    if not any(batches.next_offset(state.segment) for state in segments):
        raise click.BadParameter(
            f"nothing of {uri} is in these tables: give the address that they were read from",
            param_hint="--from",
        )


def _audit_with_bar(stream: ServiceReader, segments: list[SegmentState]) -> StoredPacks:
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.percentage:.0f} %"),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=Console(stderr=True), transient=True, disable=not sys.stderr.isatty()
    ) as bars:
        bar = bars.add_task("opening packs", total=None)
        return audit_packs(
            stream, segments, lambda done, whole: bars.update(bar, completed=done, total=whole)
        )
