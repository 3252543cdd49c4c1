"""Shows a Delta table as one of Iceberg's, too: the same files, with Iceberg's metadata beside.

Delta's log stays the truth. A snapshot says in its summary which version of the table it shows; the
next one differs from it by the files that came and went since, in one commit of Iceberg's. So a
crash at any moment leaves the snapshot before, and repeating the work is harmless.

The catalog is a SQLite file. An Iceberg table is partitioned by the day of `received`, which it
derives from the files' own statistics. Its metadata is not synced: what a power failure damages may
be deleted, and is made anew.
"""

import logging
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import parquet_file_to_data_file
from pyiceberg.transforms import DayTransform

from logdrive.pipeline.decode.schema import plain_schema
from logdrive.pipeline.tables.day_files import DAY
from logdrive.pipeline.tables.delta import AppendTable

CATALOG: Final = "logdrive"
_VERSION = "logdrive.version"  # in a snapshot's summary: the version of the Delta table
_TABLE = "logdrive.table"  # likewise, the id of that table
_FILE = "file://"
_KEPT = timedelta(days=1)  # snapshots: what removed their files keeps those as long
_PROPERTIES = {
    "gc.enabled": "false",  # the files are Delta's: nobody else may delete them
    "write.metadata.delete-after-commit.enabled": "true",
    "write.metadata.previous-versions-max": "20",
}


def open_catalog(directory: str) -> SqlCatalog:
    """Open the catalog in *directory*; create it if there is none."""
    # it warns of each column without statistics, of which our files have few
    logging.getLogger("pyiceberg.io.pyarrow").setLevel(logging.ERROR)
    place = os.path.abspath(directory)
    os.makedirs(place, exist_ok=True)
    return SqlCatalog(
        CATALOG, uri=f"sqlite:///{place}/catalog.db", warehouse=f"file://{place}/warehouse"
    )


def publish_table(catalog: SqlCatalog, name: tuple[str, str], table: AppendTable) -> bool:
    """Let the Iceberg table *name* show the present version of *table*.

    Returns False if it did already. Raises errors of pyiceberg's, SQLAlchemy's and OSError.
    """
    shown = _open_shown(catalog, name, table)
    summary = shown.current_snapshot().summary if shown.current_snapshot() else None
    said = {key: None if summary is None else summary.get(key) for key in (_VERSION, _TABLE)}
    if said == {_VERSION: str(table.version), _TABLE: table.table_id}:
        return False

    known = {
        task.file.file_path.removeprefix(_FILE): task.file for task in shown.scan().plan_files()
    }
    live = set(table.files)
    gone = [file for path, file in known.items() if path not in live]
    new = sorted(live - set(known))
    properties = {_VERSION: str(table.version), _TABLE: table.table_id}
    with shown.transaction() as transaction:
        update = transaction.update_snapshot(snapshot_properties=properties)
        with update.overwrite() if gone else update.fast_append() as snapshot:
            for file in gone:
                snapshot.delete_data_file(file)
            for path in new:
                snapshot.append_data_file(
                    parquet_file_to_data_file(shown.io, shown.metadata, f"{_FILE}{path}")
                )
    shown.maintenance.expire_snapshots().older_than(datetime.now(UTC) - _KEPT).commit()
    return True


def _open_shown(catalog: SqlCatalog, name: tuple[str, str], table: AppendTable) -> Any:
    """Return the Iceberg table *name*, with all columns of *table*; create it if there is none."""
    catalog.create_namespace_if_not_exists(name[:1])
    fields = [field for field in plain_schema(table.schema) if field.name != DAY.name]
    schema = pa.schema(_in_files(fields, table.columns))
    if not catalog.table_exists(name):
        with catalog.create_table_transaction(name, schema, properties=_PROPERTIES) as creation:
            with creation.update_spec() as spec:
                spec.add_field("received", DayTransform(), DAY.name)
            # files have no ids of columns, so columns are known by name
            mapping = creation.table_metadata.schema().name_mapping.model_dump_json()
            creation.set_properties({"schema.name-mapping.default": mapping})
    shown = catalog.load_table(name)
    if missing := set(schema.names) - {field.name for field in shown.schema().fields}:
        with shown.update_schema() as change:
            change.union_by_name(pa.schema([schema.field(each) for each in sorted(missing)]))
    return shown


def _in_files(fields: Iterable[pa.Field], columns: Iterable[str]) -> list[pa.Field]:
    there = set(columns)
    return [field for field in fields if field.name in there]
