"""`logdrive pipeline audit --against`: compares files with the tables, and says what differs."""

import os
from collections.abc import Sequence

import click

from agent.sources.paths import printable_path
from logdrive.cli.pipeline_progress import show_files_read
from logdrive.cli.tables.unpacked import open_content
from logdrive.errors import StorageError, os_error_text
from logdrive.pipeline.audit.against import (
    ComparedFile,
    Comparison,
    ReadableFile,
    compare_file,
)
from logdrive.pipeline.audit.begins_as import find_beginnings
from logdrive.pipeline.bronze.rebuild import find_source
from logdrive.printable import escape_unprintable

_RANGES = 20  # limit on the ranges that are printed
_TRIED = 20  # limit on the sources that a file is compared with


def compare_files(directory: str, files: Sequence[str], source: str | None) -> list[Comparison]:
    """Compare each of *files* with its source in the tables of *directory*.

    *source* is that of the only file; by default it is the one that has the file's path, else the
    one that begins as the file does, and has the same bytes if several do. Of a compressed file its
    content is compared, as that is what agents send. Raises
    `click.ClickException` if that is not one source, `StorageError`.
    """
    return [_compare_file(directory, file, source) for file in files]


def _compare_file(directory: str, name: str, source: str | None) -> Comparison:
    try:
        with open_content(name) as (file, size), show_files_read() as on_progress:
            made = [
                compare_file(
                    directory, ComparedFile(printable_path(name), one, size, file), on_progress
                )
                for one in _candidates(directory, name, file, source)
            ]
    except OSError as error:
        raise StorageError(f"{name} can't be read: {os_error_text(error)}") from error
    same = [one for one in made if one.same]
    if len(same or made) > 1:
        raise _ambiguous(name, [one.source for one in same or made])
    return (same or made)[0]


def _candidates(directory: str, name: str, file: ReadableFile, source: str | None) -> Sequence[str]:
    """Return the source that *source*, or else the file's path, names, or those that it may be.

    Raises `click.ClickException` without any.
    """
    try:
        return [find_source(directory, printable_path(source or os.path.abspath(name)))]
    except ValueError as error:
        if source:
            raise click.ClickException(str(error)) from error
        found = find_beginnings(directory, file)
        if not found:
            raise click.ClickException(
                f"{error}\ngive --source ID, with one --against FILE at a time"
            ) from error
        if len(found) > _TRIED:
            raise _ambiguous(name, found) from error
        return found


def _ambiguous(name: str, sources: Sequence[str]) -> click.ClickException:
    listed = "\n  ".join(sources[:_TRIED])
    more = f"\n  … and {len(sources) - _TRIED:,} more" if len(sources) > _TRIED else ""
    return click.ClickException(
        f"{escape_unprintable(name)} may be any of {len(sources)} sources, which begin as it does: "
        f"give --source ID, with one --against FILE at a time\n  {listed}{more}"
    )


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
    print(f"{name}: compared with the source {one.source}")
    if one.different is not None:
        print(f"{name}: byte {one.different:,} is the first that differs in the tables")
    for start, end in one.missing[:_RANGES]:
        print(f"{name}: bytes [{start:,}, {end:,}) are not in the tables")
    if len(one.missing) > _RANGES:
        print(f"{name}: … and {len(one.missing) - _RANGES:,} more such ranges")
    if one.beyond:
        print(f"{name}: the tables have {one.beyond:,} bytes behind its end")
