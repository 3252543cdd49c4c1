"""`logdrive pipeline cat`: prints the file of one source, from its rows."""

import sys

import click

from logdrive.cli.output import print_error
from logdrive.printable import escape_unprintable

_INCOMPLETE = 1


@click.command(
    short_help="Print one source's file, byte for byte.",
    epilog="Example: logdrive pipeline cat /data/logs /var/log/app.log > app.log",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.argument("source")
def cat(directory: str, source: str) -> int:
    """Print one source's file, byte for byte as it was.

    What is quarantined or was erased is left out and named on standard error, and so is what lies
    before the beginning of tables that begin at a time; it then exits with 1.

    SOURCE is the source's id as the audit lists it, the beginning of the id, or the file's path.
    """
    from logdrive.pipeline.tables.installed import require_tables

    require_tables()
    from logdrive.pipeline.bronze.rebuild import (
        erased_parts,
        find_source,
        missing_head,
        quarantined_parts,
        source_pieces,
    )

    try:
        found = find_source(directory, source)
        head = missing_head(directory, found)
        parts = head + quarantined_parts(directory, found) + erased_parts(directory, found)
        for _, data in source_pieces(directory, found, needed=not parts):
            sys.stdout.buffer.write(data)
    except ValueError as error:
        raise click.ClickException(
            "\n".join(map(escape_unprintable, str(error).split("\n")))
        ) from error
    sys.stdout.buffer.flush()
    for part in parts:
        print_error(f"{part.text}; its lines are left out")
    return _INCOMPLETE if parts else 0
