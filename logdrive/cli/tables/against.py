"""`logdrive pipeline audit --against`: compares files with the tables, and says what differs."""

import os
from collections.abc import Sequence

import click

from agent.sources.paths import printable_path
from logdrive.cli.pipeline_progress import show_files_read
from logdrive.errors import StorageError, os_error_text
from logdrive.host.disk import SystemDisk
from logdrive.pipeline.audit.against import ComparedFile, Comparison, compare_file
from logdrive.pipeline.bronze.rebuild import find_source
from logdrive.printable import escape_unprintable

_RANGES = 20  # limit on the ranges that are printed


def compare_files(directory: str, files: Sequence[str], source: str | None) -> list[Comparison]:
    """Compare each of *files* with its source in the tables of *directory*.

    *source* is that of the only file; by default it is the one that has the file's path. Raises
    `click.ClickException` if that is not one source, `StorageError`.
    """
    return [_compare_file(directory, file, source) for file in files]


def _compare_file(directory: str, name: str, source: str | None) -> Comparison:
    try:
        found = find_source(directory, printable_path(source or os.path.abspath(name)))
    except ValueError as error:
        remedy = "" if source else "\ngive --source ID, with one --against FILE at a time"
        raise click.ClickException(f"{error}{remedy}") from error
    try:
        file = SystemDisk().open(name)
        try:
            compared = ComparedFile(printable_path(name), found, file.stat().size, file)
            with show_files_read() as on_progress:
                return compare_file(directory, compared, on_progress)
        finally:
            file.close()
    except OSError as error:
        raise StorageError(f"{name} can't be read: {os_error_text(error)}") from error


def print_comparison(one: Comparison) -> None:
    """Print what *one* file and the tables have in common, on standard output."""
    name = escape_unprintable(one.file)
    if one.same:
        left_out = f", but for {one.left_out:,} that were left out, redacted or erased on purpose"
        print(
            f"{name}: its {one.bytes:,} bytes are in the tables as they are"
            f"{left_out if one.left_out else ''} (source {one.source})"
        )
        return
    if one.different is not None:
        print(f"{name}: byte {one.different:,} is the first that differs in the tables")
    for start, end in one.missing[:_RANGES]:
        print(f"{name}: bytes [{start:,}, {end:,}) are not in the tables")
    if len(one.missing) > _RANGES:
        print(f"{name}: … and {len(one.missing) - _RANGES:,} more such ranges")
    if one.beyond:
        print(f"{name}: the tables have {one.beyond:,} bytes behind its end")
