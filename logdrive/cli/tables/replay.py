"""`logdrive pipeline replay`: rows of bronze appended to a stream again, each once."""

import click

from agent.sources.paths import printable_path
from logdrive.cli.access import AccessOptions, access_options
from logdrive.cli.output import configure_logging, emit_json
from logdrive.cli.pipeline_progress import show_amount


@click.command(
    short_help="Append rows of bronze to a stream again, each once.",
    epilog="Example: logdrive pipeline replay /data/logs --to pravega://127.0.0.1:6000/logs/again "
    "--from 2026-11-23T06:00:00Z --segments 1",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--to",
    "uri",
    required=True,
    metavar="URI",
    help="Stream to append to: pravega://host:port/scope/stream.",
)
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="SOURCE",
    help="Only rows of this source: its id, origin id, the beginning of either, or its path; "
    "repeatable.",
)
@click.option("--from", "since", metavar="TIME", help="Only rows received at this time or later.")
@click.option("--until", metavar="TIME", help="Only rows received before this time.")
@click.option(
    "--name",
    default="replay",
    show_default=True,
    help="Name of this replay, for one selection of rows: under another one, the same rows are "
    "appended again.",
)
@click.option(
    "--segments",
    type=click.IntRange(1, 1000),
    help="Make a stream that is not there, with so many segments.",
)
@access_options
@click.option("--dry-run", is_flag=True, help="Only say how many rows there are.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object at the end.")
def replay(
    directory: str,
    uri: str,
    sources: tuple[str, ...],
    since: str | None,
    until: str | None,
    name: str,
    segments: int | None,
    access: AccessOptions,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Append the rows in DIRECTORY/bronze/events to a stream, as lines of a foreign shipper.

    To run it again appends what is missing: after an interruption, or what the tables got since.
    Quarantined rows are left out.
    """
    from logdrive.host.clock import SystemClock
    from logdrive.net.tcp import SystemTransport
    from logdrive.pipeline.read.stream import stream_client
    from logdrive.pipeline.tables.installed import require_tables
    from logdrive.pipeline.write.replay import ReplayFilter, replay_rows

    require_tables()
    configure_logging("info")
    first, end = _time("--from", since), _time("--until", until)
    if first is not None and end is not None and first > end:
        raise click.BadParameter(f"it is later than --until {until}", param_hint="--from")
    where = ReplayFilter(tuple(_source(directory, one) for one in sources), first, end)
    try:
        stream = stream_client(uri, access.tls, access.login)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--to") from error
    with show_amount("replayed", "rows", quiet=as_json) as on_progress:
        counts = replay_rows(
            directory,
            stream,
            where,
            on_progress,
            name=name,
            segments=segments,
            dry_run=dry_run,
            transport=SystemTransport(),
            clock=SystemClock(),
        )
    if as_json:
        emit_json({"rows": counts.rows, "appended": counts.appended})
    elif dry_run:
        print(f"{counts.rows:,} rows would be appended, but for those quarantined, or replayed")
    else:
        print(f"{counts.appended:,} of {counts.rows:,} rows appended")


def _source(directory: str, wanted: str) -> str:
    """Return the id of the source that *wanted* names."""
    from logdrive.pipeline.bronze.rebuild import find_source

    try:
        return find_source(directory, printable_path(wanted), foreign=True)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--source") from error


def _time(option: str, text: str | None) -> int | None:
    from logdrive.pipeline.read.times import parse_time_ms

    try:
        return None if text is None else parse_time_ms(text)
    except ValueError as error:
        remedy = f"{text!r}: write a time such as 2026-11-23T06:00:00Z, or ms since 1970"
        raise click.BadParameter(remedy, param_hint=option) from error
