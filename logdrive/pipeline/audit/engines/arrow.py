"""Answers an audit's questions by reading the files of `events` in this process."""

from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.audit.engines.engine import SUMS, SourceNames
from logdrive.pipeline.audit.engines.file_figures import (
    FileFigures,
    digest_keys,
    keys_within,
    read_continuing,
    read_figures,
)
from logdrive.pipeline.audit.engines.known_files import KnownFiles
from logdrive.pipeline.audit.equal_rows import ROW_COLUMNS, ComparedRows, measure_copy
from logdrive.pipeline.audit.file_rows import FilesProgress, map_files, read_pieces, read_source
from logdrive.pipeline.audit.position_hash import Integers
from logdrive.pipeline.audit.sealed_file import FileKey
from logdrive.pipeline.audit.unreadable import DamagedFile, find_damage
from logdrive.pipeline.decode.schema import DAMAGED_PACK
from logdrive.pipeline.tables.delta import AppendTable


class ArrowEngine:
    """Reads with pyarrow and numpy, by a thread a core, in bounded memory.

    What *known* has of a file is believed: such a file is not read, unless *full*. Then all columns
    of all files are read, and those that can't be are left out.
    """

    def __init__(
        self,
        events: AppendTable,
        known: KnownFiles | None = None,
        *,
        full: bool = False,
        on_progress: FilesProgress = lambda _, __: None,
    ) -> None:
        self._paths = sorted(events.files)
        self._known = known
        self._full = full
        self._on_progress = on_progress
        self._files: dict[str, FileFigures] = {}
        self._keys: dict[str, FileKey] = {}
        self._unreadable: list[DamagedFile] = []
        self._changed = False  # True: something is not in *known* yet
        self.read_files = 0
        """Files that were read."""
        self.known_files = 0
        """Files that were not read, as *known* had their figures."""

    def sum_rows(self) -> pa.Table:
        """Return `SUMS` over all rows."""
        self._files = self._load()
        self.known_files = len(self._files)
        new = [path for path in self._paths if path not in self._files]
        for one in map_files(_read_whole if self._full else read_figures, new):
            if isinstance(one, DamagedFile):
                self._unreadable.append(one)
            else:
                self._files[one.path] = one
            self.read_files += 1
            self._on_progress(self.read_files, len(new))
        return pa.concat_tables(
            [SUMS.empty_table(), *(one.runs.select(SUMS.names) for one in self._files.values())]
        )

    def _load(self) -> dict[str, FileFigures]:
        """Return what is known of the files of this version."""
        if self._known is None:
            return {}
        # a file that is gone is found out by who reads it
        with suppress(OSError):
            self._keys = {path: self._known.key_of(path) for path in self._paths}
        kept = {} if self._full else self._known.load()
        known = {path: kept[key] for path, key in self._keys.items() if key in kept}
        self._changed = len(known) < len(self._paths) or len(known) < len(kept)
        return known

    def keep_figures(self) -> None:
        """Let a later audit know the figures of all files. Raises OSError; it then reads again."""
        if self._known is not None and self._changed:
            self._known.save({self._keys[path]: one for path, one in self._files.items()})
            self._changed = False

    def unreadable_files(self) -> Sequence[DamagedFile]:
        """Return the files that can't be read; see `AuditEngine`."""
        return self._unreadable

    def damage_reasons(self) -> Mapping[int, str]:
        """Return why packs can't be opened, by batch."""
        damaged = [path for path, one in self._files.items() if pc.max(one.runs["damaged"]).as_py()]
        return {
            batch: reason
            for found in map_files(_read_reasons, damaged)
            for batch, reason in found.items()
        }

    def count_doubled(self, sources: Sequence[str]) -> int:
        """Return how many rows of *sources* share their start with another one of their source."""
        return sum(map(self._count_doubled, sources))

    def _count_doubled(self, source: str) -> int:
        """Takes 8 bytes of memory a row of *source*."""
        read = partial(_read_starts, source=source)
        starts = np.concatenate([np.empty(0, np.int64), *map_files(read, self._paths_of(source))])
        return len(starts) - len(np.unique(starts))

    def count_continuing(self) -> Mapping[str, int]:
        """Return, by source, how many rows continue the line of another row.

        What was counted in a file holds as long as no line without an end is found in its span.
        """
        files = list(self._files.values())
        again = [
            (one, keys)
            for one, keys in zip(files, keys_within(files), strict=True)
            if digest_keys(keys) != one.continuing.digest
        ]
        for (one, _), found in zip(
            again, map_files(lambda it: read_continuing(it[0].path, it[1]), again), strict=True
        ):
            one.continuing, self._changed = found, True
        counts = Counter[str]()
        for one in files:
            counts.update(one.continuing.counts)
        return counts

    def size_copies(self, pairs: Sequence[SourceNames]) -> Mapping[SourceNames, tuple[int, int]]:
        """Return how many rows and bytes the two sources of each pair begin with alike.

        Takes 24 bytes of memory a row of the two.
        """
        return {pair: measure_copy(*map(self._read_source, pair)) for pair in pairs}

    def _read_source(self, source: str) -> ComparedRows:
        read = partial(_read_rows, source=source)
        return ComparedRows.join(
            rows for file in map_files(read, self._paths_of(source)) for rows in file
        )

    def _paths_of(self, source: str) -> list[str]:
        """Return the files that have rows of *source*."""
        return [
            path
            for path, one in self._files.items()
            if pc.any(pc.equal(one.runs["source"], source)).as_py()
        ]


def _read_whole(path: str) -> FileFigures | DamagedFile:
    return find_damage(path) or read_figures(path)


def _read_reasons(path: str) -> dict[int, str]:
    found: dict[int, str] = {}
    for rows in read_pieces(path, ("batch", "flag", "fields")):
        damaged = rows.filter(pc.equal(rows["flag"].cast(pa.string()), DAMAGED_PACK))
        batches, fields = damaged["batch"].to_pylist(), damaged["fields"].to_pylist()
        for batch, said in zip(batches, fields, strict=True):
            with suppress(
                orjson.JSONDecodeError, LookupError, TypeError
            ):  # the row is damaged, too
                found[batch] = orjson.loads(said)["error"]["message"]
    return found


def _read_starts(path: str, source: str) -> Integers:
    starts = [rows["start"].drop_null().to_numpy() for rows in read_source(path, source, ["start"])]
    return np.concatenate([np.empty(0, np.int64), *starts])


def _read_rows(path: str, source: str) -> list[ComparedRows]:
    return [ComparedRows.of(rows) for rows in read_source(path, source, ROW_COLUMNS)]
