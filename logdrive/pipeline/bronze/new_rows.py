"""Keeps of what was read only the rows that the tables do not have (rule A2)."""

import os
from collections.abc import Container

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from logdrive.pipeline.bronze.trim_rows import trim_rows
from logdrive.pipeline.bronze.written_range import WrittenRange
from logdrive.pipeline.decode.coverage import Coverage, intersect
from logdrive.pipeline.decode.headers import BatchRow
from logdrive.pipeline.decode.schema import EVENTS, plain_schema
from logdrive.pipeline.tables.files import AddedFile, EventFile


class NewRows:
    """Compares ranges with what the tables have, and writes files again that have more."""

    def __init__(
        self, directory: str, compression: str, cover: Coverage, again: Container[int]
    ) -> None:
        """*directory* has the files. *cover* is what the tables have of each source: what is kept
        is added to it. *again* are ids of batches whose rows they have.
        """
        self._directory = directory
        self._compression = compression
        self._cover = cover
        self._again = again

    def keep(self, part: WrittenRange) -> list[AddedFile]:
        """Keep of each batch only what its source's coverage lacks.

        Updates the headers of *part*, and returns files with just these rows.
        """
        partial: dict[int, BatchRow] = {}  # batches of which not all is kept, by id
        for row in part.headers:
            if row.batch in self._again:  # its rows are in the tables
                row.kept = None if row.kept is None else []
                partial[row.batch] = row
            elif (
                row.kind == "data"
                and row.source is not None
                and row.previous is not None
                and row.position is not None
            ):
                kept = self._cover.cover_interval(row.source, row.previous, row.position)
                if kept != row.kept:
                    row.kept, row.dropped = kept, intersect(row.dropped, kept)
                    partial[row.batch] = row
        if not partial:
            return part.files
        rewritten = [self._rewrite_file(file, partial) for file in part.files]
        return [file for file in rewritten if file is not None]

    def _rewrite_file(self, file: AddedFile, partial: dict[int, BatchRow]) -> AddedFile | None:
        """Write *file* again, with only the kept rows of the batches in *partial*."""
        schema = plain_schema(EVENTS)
        with EventFile(self._directory, schema, self._compression, file.partition) as target:
            source = pq.ParquetFile(os.path.join(self._directory, file.name))
            for group in range(source.num_row_groups):
                table = source.read_row_group(group).cast(schema)
                batches = table["batch"].combine_chunks()
                # the rows of all other batches as they are, and then what is kept of these
                met = [batch for batch in pc.unique(batches).to_pylist() if batch in partial]
                target.write_row_group(
                    table.filter(pc.invert(pc.is_in(batches, value_set=pa.array(met, pa.int64()))))
                )
                for batch in met:
                    kept = trim_rows(
                        table.filter(pc.equal(batches, batch)), partial[batch].kept or []
                    )
                    partial[batch].rows = kept.num_rows
                    target.write_row_group(kept)
        # not committed yet, so no table names it
        os.unlink(os.path.join(self._directory, file.name))
        return target.added_file
