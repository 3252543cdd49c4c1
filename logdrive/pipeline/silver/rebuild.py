"""Drops the silver tables, so that they can be filled again from bronze."""

from logdrive.host.disk import Disk
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.silver.schema import silver_directory
from logdrive.pipeline.tables.dropping import drop_tables


def drop_silver(directory: str, disk: Disk) -> bool:
    """Remove the silver tables in *directory*; return whether there were any.

    Raises `StorageError` if there is no bronze to fill them from, or another process fills them.
    """
    open_tables(directory)
    return drop_tables(silver_directory(directory), disk)
