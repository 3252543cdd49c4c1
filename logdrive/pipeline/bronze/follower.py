"""Shows the bronze tables in another form while they are written, in a thread beside the commits.

The tables stay the truth: what is shown may be a minute behind, and can be made anew at any time.
"""

import os
import shutil
import threading
from collections.abc import Callable
from typing import Literal

import structlog

from logdrive.errors import StorageError, file_error_text
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.tables.installed import require_packages
from logdrive.pipeline.tables.plain_files import publish_files

_SECONDS = 60.0  # between two looks at what is new, at least: each makes some files

TableForm = Literal["iceberg", "parquet"]
"""What bronze tables can be shown as, besides Delta; also the name of a directory in DIR."""


def form_directory(directory: str, form: TableForm) -> str:
    """Return where the tables in *directory* are shown as *form*."""
    return os.path.join(os.path.abspath(directory), form)


def show_as_iceberg(directory: str) -> None:
    """Let Iceberg show the present versions of `events` and `batches`.

    Raises `StorageError`, and whatever pyiceberg and its catalog raise.
    """
    from logdrive.pipeline.tables.iceberg import open_catalog, publish_table

    events, batches = open_tables(directory)
    catalog = open_catalog(form_directory(directory, "iceberg"))
    try:
        for name, table in (("batches", batches), ("events", events)):
            publish_table(catalog, ("bronze", name), table)
    finally:
        catalog.close()


def show_as_parquet(directory: str) -> None:
    """Let directories show the present versions of `events` and `batches`.

    Raises `StorageError` and OSError.
    """
    events, batches = open_tables(directory)
    place = form_directory(directory, "parquet")
    for name, table in (("batches", batches), ("events", events)):
        publish_files(place, name, table)


def withdraw_parquet(directory: str) -> None:
    """Remove the plain files, which keep rows that were erased. Raises `StorageError`."""
    try:
        shutil.rmtree(form_directory(directory, "parquet"))
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError(f"plain files can't be removed: {file_error_text(error)}") from error


_SHOW: dict[TableForm, Callable[[str], None]] = {
    "iceberg": show_as_iceberg,
    "parquet": show_as_parquet,
}


class TablesFollower:
    """Shows what commits have added as *form*, at once and then every `_SECONDS` at most.

    What can't be shown is logged and tried again with the next commit: the tables are unharmed.
    Raises `PackagesMissingError` without the packages that *form* needs.
    """

    def __init__(self, directory: str, form: TableForm) -> None:
        if form == "iceberg":
            require_packages(["pyiceberg", "sqlalchemy"], "iceberg")
        self._directory = directory
        self._form = form
        # set while there are commits that are not shown, as there may be from an earlier run
        self._changed = threading.Event()
        self._changed.set()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name=form)
        self._thread.start()

    def after_commit(self) -> None:
        """Note that there is something to show."""
        self._changed.set()

    def finish(self) -> None:
        """Show what there is and end the thread."""
        self._ending.set()
        self._changed.set()
        self._thread.join()

    def _run(self) -> None:
        while True:
            self._changed.wait()
            self._changed.clear()
            ending = self._ending.is_set()
            self._show()
            if ending:
                return
            self._ending.wait(_SECONDS)

    def _show(self) -> None:
        try:
            _SHOW[self._form](self._directory)
        except Exception as error:  # pyiceberg's exceptions have no root but this
            structlog.get_logger("logdrive.pipeline").warning(
                f"the tables can't be shown as {self._form}",
                error=str(error),
                place=form_directory(self._directory, self._form),
            )
