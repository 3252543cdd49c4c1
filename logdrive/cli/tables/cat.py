"""`logdrive pipeline cat`: prints the file of one source, from its rows."""

import sys

import click

from agent.sources.paths import printable_path
from logdrive.cli.output import print_error

_INCOMPLETE = 1


@click.command(
    short_help="Print one source's file, byte for byte.",
    epilog="Example: logdrive pipeline cat /data/logs /var/log/app.log > app.log",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.argument("source")
def cat(directory: str, source: str) -> int:
    """Print one source's file, byte for byte as it was.

    Bytes that are not in the tables are left out, and named on standard error: what the agent's
    rules left out, what was skipped, erased, quarantined or lost, and what lies before the
    beginning of tables that begin at a time. It then exits with 1.

    SOURCE is the source's id as the audit lists it, its origin id as `agent source list` does, the
    beginning of either, or the file's path.
    """
    from logdrive.pipeline.tables.installed import require_tables

    require_tables()
    from logdrive.pipeline.audit.absent import read_sent
    from logdrive.pipeline.bronze.rebuild import (
        erased_parts,
        find_source,
        missing_head,
        quarantined_parts,
        source_pieces,
    )
    from logdrive.pipeline.decode.coverage import total_size, union

    try:
        found = find_source(directory, printable_path(source))
        sent = read_sent(directory, found)
        head = missing_head(directory, found)
        parts = head + quarantined_parts(directory, found) + erased_parts(directory, found)
        known = [(part.previous, part.position) for part in parts]
        begin = end = 0
        for start, data in source_pieces(directory, found):
            sys.stdout.buffer.write(data)
            # as many as there are holes, not rows
            if start != end:
                known.append((begin, end))
                begin = start
            end = start + len(data)
        known.append((begin, end))
    except ValueError as error:
        raise click.ClickException(str(error)) from error
    sys.stdout.buffer.flush()

    left_out, lost = sent.find_absent(union(known))
    for part in parts:
        print_error(f"{part.text}; its lines are left out")
    if left_out:
        print_error(
            f"{total_size(left_out):,} bytes were left out by rules of the agent, or skipped or "
            f"sent again by an operator, the first at {left_out[0][0]:,}"
        )
    if lost:
        print_error(
            f"{total_size(lost):,} bytes are lost, the first at {lost[0][0]:,}: see `logdrive "
            "pipeline audit`"
        )
    return _INCOMPLETE if parts or left_out or lost else 0
