"""`logdrive pipeline audit --deep`: opens every pack of the stream that tables were read from."""

import sys
from typing import Any

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from logdrive.cli.access import AccessOptions
from logdrive.cli.pack_faults import pack_figures, pack_verdict
from logdrive.errors import ConfigError, LogdriveError
from logdrive.pipeline.audit.deep import DeepAudit, audit_packs
from logdrive.pipeline.bronze.history import read_batch_ends, read_header_chain
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.read.connect import open_stream
from logdrive.pipeline.resume import require_segments
from logdrive.pipeline.tables.delta import AppendTable
from logdrive.printable import escape_unprintable
from logdrive.services.reader import SegmentState, ServiceReader


def audit_stream(directory: str, uri: str, access: AccessOptions) -> DeepAudit:
    """Open every pack of the stream *uri*, with a progress bar on a terminal.

    Raises `click.BadParameter` if the tables in *directory* were not read from it, and as
    `open_stream` and `audit_packs` do.
    """
    with open_stream(uri, access.tls, access.login) as stream:
        segments = require_segments(stream, uri)
        _, batches = open_tables(directory)
        if not any(_is_of_tables(stream, state, batches) for state in segments):
            raise click.BadParameter(
                f"nothing of {uri} is in these tables: give the address that they were read from",
                param_hint="--from",
            )
        return _audit_with_bar(stream, segments, batches)


def print_packs(found: DeepAudit) -> None:
    """Print what was found, on standard output."""
    packs = found.packs
    for fault in packs.faults:
        print(escape_unprintable(fault.text))
    for part in found.unread:
        print(escape_unprintable(part.text))
    unread = _unread(found)
    if not packs.opened:
        print(f"no packs in {'what of the stream was read' if unread else 'the stream'}{unread}")
        return
    print(f"{pack_verdict(packs, place=' in the stream')}{unread}")


def _unread(found: DeepAudit) -> str:
    count = found.unread_parts
    if not count:
        return ""
    more = count - len(found.unread)
    unnamed = f", {more:,} of them not named above" if more else ""
    return f"; {count:,} {'part' if count == 1 else 'parts'} could not be read{unnamed}"


def deep_figures(found: DeepAudit) -> dict[str, Any]:
    """Return what `--json` prints of it."""
    return pack_figures(found.packs) | {
        "unread_parts": found.unread_parts,
        "unread": [part._asdict() for part in found.unread],
    }


def _is_of_tables(stream: ServiceReader, state: SegmentState, batches: AppendTable) -> bool:
    """Return whether *state*'s segment has a header that *batches* has, too: its name alone is that
    of a segment in any store.
    """
    chain = read_header_chain(batches, state.segment, batches.next_offset(state.segment))
    kept = [known for known in chain if known.offset >= state.start]
    if not kept:  # all were cut off: the length alone tells
        return bool(chain) and chain[-1].next <= state.length
    try:
        return stream.count_known_headers(state.segment, kept) > 0
    except ConfigError:
        raise
    except LogdriveError:  # a header can't be read: the audit says so
        return True


def _audit_with_bar(
    stream: ServiceReader, segments: list[SegmentState], batches: AppendTable
) -> DeepAudit:
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
            stream,
            segments,
            lambda done, whole: bars.update(bar, completed=done, total=whole),
            lambda segment: read_batch_ends(batches, segment),
        )
