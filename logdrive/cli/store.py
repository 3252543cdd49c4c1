"""`logdrive store …`: serve a store, list and print its streams, verify its files."""

import os
import sys
from collections.abc import Sequence
from types import ModuleType

import click
import structlog
from rich.console import Console
from rich.table import Table

from logdrive.address import IggyAddress, S2Address, host_port_text
from logdrive.cli.access import AccessOptions, access_options
from logdrive.cli.config_files import STORE_CONFIG
from logdrive.cli.letters.dead_letters import dead_letters_group
from logdrive.cli.log_forms import LogForm
from logdrive.cli.log_options import log_format_option, log_level_option
from logdrive.cli.output import configure_logging, emit_json
from logdrive.cli.pack_faults import PackFaultPrinter
from logdrive.cli.printed_lines import print_lines
from logdrive.cli.runtime import Machine, run_program
from logdrive.cli.streams import (
    no_such_stream,
    parse_segmented_address,
    parse_stream_address,
    query_segments,
)
from logdrive.cli.users import user
from logdrive.cli.verifying import verify
from logdrive.config.load import load_config, name_keys_in_errors
from logdrive.services.config import StoreConfig
from logdrive.services.lines import SegmentContents
from logdrive.services.optional_libraries import libraries_of
from logdrive.services.pravega.reader.position import reader_position, set_reader_position
from logdrive.services.pravega.reader.stream import (
    FindNewSegments,
    ReadableSegment,
    count_contents,
    follow_lines,
    read_all_lines,
)
from logdrive.services.reader import SegmentState
from logdrive.services.serve import serve_store as serve


@click.group(
    short_help="Serve, inspect and verify the embedded store.",
    epilog="Example: logdrive store ls file:///var/lib/logdrive/store#logs/events",
)
def store() -> None:
    """Serve, inspect and verify the embedded store.

    A store is a directory of append-only segments: one copy, on one disk.
    """


store.add_command(user)
store.add_command(dead_letters_group)
store.add_command(verify)


@store.command(
    short_help="Serve a store to clients of Pravega, S2 and Iggy.",
    epilog="Example: logdrive store run --config /etc/logdrive/store.toml",
)
@click.option(
    "--config",
    "path",
    default=STORE_CONFIG,
    show_default=True,
    type=click.Path(dir_okay=False),
    help="The store's TOML file.",
)
@log_level_option
@log_format_option
def run(path: str, log_level: str, log_format: LogForm) -> None:
    """Serve a store until SIGTERM, in the protocols that its file has a table for.

    Pravega's segment store with [listen.pravega], its controller with [listen.controller], S2 with
    [listen.s2], and Iggy with [listen.iggy].
    """
    configure_logging(log_level, log_format, one_a_minute=True)
    config = load_config(path, StoreConfig, os.environ)

    async def program(machine: Machine) -> None:
        await serve(
            config,
            host=machine,
            stop=machine.stop,
            started=lambda address: structlog.get_logger("store").info(
                "listening", address=host_port_text(*address)
            ),
        )

    with name_keys_in_errors(path, config):
        run_program(program)


@store.command(
    "ls",
    short_help="List the segments of a stream, with their sizes.",
    epilog="Example: logdrive store ls file:///var/lib/logdrive/store#logs/events --json",
)
@click.argument("uri")
@access_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(uri: str, access: AccessOptions, as_json: bool) -> None:
    """List the segments of a stream with bytes, batches, events and sources.

    An S2 stream is one segment, and its length counts records. The partitions of a topic of Iggy
    are segments, and their lengths count messages. The store of a running receiver is
    read over the network, so the receiver's configuration needs [listen.pravega].
    """
    address = parse_stream_address(uri)

    async def count(
        segments: Sequence[ReadableSegment], later: FindNewSegments
    ) -> list[SegmentContents]:
        return [await count_contents(segment.client, segment.state) for segment in segments]

    if isinstance(address, S2Address):
        contents = _import_s2_streams().count_s2_stream(address, access)
    elif isinstance(address, IggyAddress):
        contents = _import_iggy_streams().count_iggy_topic(address, access)
    else:
        contents = query_segments(address, access, count)
    if not contents:
        raise no_such_stream(address)
    rows = [
        {
            "segment": row.state.segment,
            "start": row.state.start,
            "length": row.state.length,
            "sealed": row.state.sealed,
            "batches": row.batches,
            "events": row.events,
            "sources": row.sources,
            "modified": row.state.modified_ms,
        }
        for row in contents
    ]
    if as_json:
        # an address of Iggy's may have a password
        shown = address.uri if isinstance(address, IggyAddress) else uri
        emit_json({"uri": shown, "segments": rows})
        return
    length = "records" if isinstance(address, S2Address | IggyAddress) else "bytes"
    table = Table(*("segment", length, "batches", "events", "sources"), box=None)
    for column in table.columns[1:]:
        column.justify = "right"
    for row in contents:
        figures = (row.state.length - row.state.start, row.batches, row.events, row.sources)
        table.add_row(row.state.segment, *(f"{figure:,}" for figure in figures))
    # into a pipe rich would cut lines at 80 columns
    Console(width=None if sys.stdout.isatty() else 140).print(table)


@store.command(
    short_help="Print the lines of a stream.",
    epilog="Example: logdrive store cat file:///var/lib/logdrive/store#logs/events --follow | "
    "grep ERROR",
)
@click.argument("uri")
@access_options
@click.option("--follow", is_flag=True, help="Keep printing lines as they arrive.")
def cat(uri: str, access: AccessOptions, follow: bool) -> None:
    """Print the lines of a stream as they were in their files, segment after segment.

    A line that is not finished waits for the rest from its file, or for the end.
    The lines of a pack that can't be opened are left out; standard error names it, and the command
    exits with 1.
    """
    address, faults = parse_stream_address(uri), PackFaultPrinter()

    async def copy(segments: Sequence[ReadableSegment], later: FindNewSegments) -> None:
        if not segments:
            raise no_such_stream(address)
        on_fault = faults.on_fault
        await print_lines(
            follow_lines(segments, later, on_fault)
            if follow
            else read_all_lines(segments, on_fault)
        )

    if isinstance(address, S2Address):
        _import_s2_streams().copy_s2_lines(address, access, faults.on_fault, follow=follow)
    elif isinstance(address, IggyAddress):
        _import_iggy_streams().copy_iggy_lines(address, access, faults.on_fault, follow=follow)
    else:
        query_segments(address, access, copy)
    sys.exit(1 if faults.count else 0)


@store.command(
    short_help="Show or set the position of a reader that retention waits for.",
    epilog="Example: logdrive store readers file:///var/lib/logdrive/store#logs/events pipeline",
)
@click.argument("uri")
@click.argument("reader")
@access_options
@click.option(
    "--at-end",
    "at_end",
    is_flag=True,
    help="Move the reader to the end: it needs none of the present bytes.",
)
@click.option(
    "--forget",
    is_flag=True,
    help="Remove the reader's position: it needs everything, as if it had never read.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def readers(
    uri: str, reader: str, access: AccessOptions, at_end: bool, forget: bool, as_json: bool
) -> None:
    """Show how far READER has read a stream, and how many bytes it is behind.

    Retention waits for the readers that a [[retention]] table names.
    """
    if at_end and forget:
        raise click.UsageError("--at-end and --forget exclude each other")
    address = parse_segmented_address(uri)

    async def update_and_ask(
        segments: Sequence[ReadableSegment], later: FindNewSegments
    ) -> list[tuple[SegmentState, int | None]]:
        for one in segments if at_end or forget else ():
            await set_reader_position(
                one.client, one.state.segment, reader, one.state.length if at_end else None
            )
        return [
            (one.state, await reader_position(one.client, one.state.segment, reader))
            for one in segments
        ]

    rows = [
        {
            "segment": state.segment,
            "position": place,
            "behind": state.length - max(state.start, place or 0),
        }
        for state, place in query_segments(address, access, update_and_ask, update=at_end or forget)
    ]
    if as_json:
        emit_json({"uri": uri, "reader": reader, "segments": rows})
        return
    table = Table("segment", "position", "behind", box=None)
    table.columns[1].justify = table.columns[2].justify = "right"
    for row in rows:
        table.add_row(
            str(row["segment"]),
            "never" if row["position"] is None else f"{row['position']:,}",
            f"{row['behind']:,}",
        )
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def _import_s2_streams() -> ModuleType:
    """Return the module for `s2://` addresses. Raises `ConfigError` without its libraries."""
    with libraries_of("S2", "store", "URI", ""):
        from logdrive.cli import s2_streams
    return s2_streams


def _import_iggy_streams() -> ModuleType:
    """Return the module for `iggy://` addresses. Raises `ConfigError` without its libraries."""
    with libraries_of("Iggy", "store", "URI", ""):
        from logdrive.cli import iggy_streams
    return iggy_streams
