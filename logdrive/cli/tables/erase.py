"""`logdrive pipeline erase`: removes lines from all tables, and leaves a record for the audit."""

import getpass
from dataclasses import asdict

import click

from logdrive.cli.output import configure_logging, emit_json


@click.command(
    short_help="Remove lines from all tables, and tell the audit.",
    epilog="Example: logdrive pipeline erase /data/logs --where "
    "\"message LIKE '%4111111111111111%'\" --why 'card numbers, ticket 17'",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--where",
    required=True,
    metavar="CONDITION",
    help="Which rows of bronze/events, in SQL: columns such as message, host, path, source, start, "
    "received.",
)
@click.option("--why", metavar="TEXT", help="Reason, which the audit repeats; not the data itself.")
@click.option(
    "--by", metavar="NAME", default=getpass.getuser, show_default="you", help="Who erases."
)
@click.option("--dry-run", is_flag=True, help="Only say how many rows that would be.")
@click.option("--yes", is_flag=True, help="Don't ask.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def erase(
    directory: str, where: str, why: str | None, by: str, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Remove the lines for which CONDITION is true from DIRECTORY's tables, and delete old files.

    Bronze, silver, its quarantine and what Filebeat sent lose them; `bronze/erased` keeps where
    they were, for the audit. Nothing may write the tables meanwhile. Older versions of the tables
    can't be read any more. The stream has the lines as long as its retention keeps them.
    """
    from logdrive.host.clock import SystemClock
    from logdrive.host.disk import SystemDisk
    from logdrive.pipeline.erase import erase_rows, find_erased

    configure_logging("info")
    try:
        found = find_erased(directory, where)
        if dry_run:
            print_counts(asdict(found), "would be erased", as_json=as_json)
            return
        if found.rows and not yes:
            click.confirm(
                f"erase {found.rows:,} rows of {found.sources:,} sources for good?",
                abort=True,
                err=True,
            )
        done = erase_rows(directory, where, by=by, why=why, clock=SystemClock(), disk=SystemDisk())
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--where") from error
    print_counts(asdict(done), "erased", as_json=as_json)


def print_counts(counts: dict[str, object], what: str, *, as_json: bool) -> None:
    """Print what was erased, or would be."""
    if as_json:
        emit_json(counts)
        return
    print(f"{counts['rows']:,} rows of {counts['sources']:,} sources {what}")
    tables = counts["tables"]
    for name, rows in tables.items() if isinstance(tables, dict) else ():
        print(f"  {name}: {rows:,}")
    if counts["gold"]:
        print("  gold was dropped: count it anew with `logdrive pipeline gold`")
