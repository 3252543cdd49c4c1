"""`logdrive pipeline report`: writes an HTML page on tables."""

import os
from pathlib import Path

import click

from logdrive.cli.tables.engines import EngineOptions, audit_tables, engine_options
from logdrive.errors import StorageError, os_error_text


@click.command(
    short_help="Write an HTML report on the tables.",
    epilog="Example: logdrive pipeline report /data/logs --out report.html",
)
@click.argument("directory", type=click.Path(exists=True, file_okay=False))
@click.option(
    "--out",
    required=True,
    type=click.Path(dir_okay=False, path_type=Path),
    help="HTML file to write; it needs no other files.",
)
@engine_options
def report(directory: str, out: Path, engine: EngineOptions) -> None:
    """Write an HTML report on the tables in DIRECTORY.

    It shows the audit's verdict, throughput, delay, the coverage of every source, and gaps.
    """
    # fail now, not after a long audit
    if not out.parent.is_dir() or not os.access(out.parent, os.W_OK):
        raise click.BadParameter(
            f"nothing can be written in {out.parent}: make that directory, or name another",
            param_hint="--out",
        )

    verdict, _ = audit_tables(directory, engine)
    from logdrive.pipeline.report.page import render_report

    try:
        out.write_text(render_report(directory, verdict), encoding="utf-8")
    except OSError as error:
        raise StorageError(f"{out} can't be written: {os_error_text(error)}") from error
    print(
        f"{out}: {'complete' if verdict.complete else 'not complete'}, {verdict.sources:,} "
        f"sources, {verdict.events:,} events"
    )
