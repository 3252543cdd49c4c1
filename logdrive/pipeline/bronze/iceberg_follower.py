"""Shows the bronze tables in Iceberg while they are written, in a thread beside the commits."""

import os
import threading

import structlog

from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.tables.iceberg import open_catalog, publish_table

_SECONDS = 60.0  # between two snapshots, at least: metadata of Iceberg's grows with each


def iceberg_directory(directory: str) -> str:
    """Return where the Iceberg catalog of the tables in *directory* is."""
    return os.path.join(os.path.abspath(directory), "iceberg")


def publish_bronze(directory: str) -> None:
    """Let Iceberg show the present versions of `events` and `batches`.

    Raises `StorageError`, and whatever pyiceberg and its catalog raise.
    """
    events, batches = open_tables(directory)
    catalog = open_catalog(iceberg_directory(directory))
    try:
        for name, table in (("batches", batches), ("events", events)):
            publish_table(catalog, ("bronze", name), table)
    finally:
        catalog.close()


class IcebergFollower:
    """Shows what commits have added, at once and then every `_SECONDS` at most.

    What can't be shown is logged and tried again with the next commit: the tables are unharmed.
    """

    def __init__(self, directory: str) -> None:
        self._directory = directory
        # set while there are commits that are not shown
        self._changed = threading.Event()
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="iceberg")
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
            self._publish()
            if ending:
                return
            self._ending.wait(_SECONDS)

    def _publish(self) -> None:
        try:
            publish_bronze(self._directory)
        except Exception as error:  # pyiceberg's exceptions have no root but this
            structlog.get_logger("logdrive.pipeline").warning(
                "the tables can't be shown in Iceberg",
                error=str(error),
                catalog=iceberg_directory(self._directory),
            )
