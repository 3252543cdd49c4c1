"""The figures of the files that earlier audits have read, kept beside the tables.

Files of a table never change, so an audit reads only those that are new. The figures are in one
sealed file, `bronze/audit-figures`. If it can't be used, all files are read again.
"""

import os
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec
import pyarrow as pa

from logdrive.host.disk import Disk
from logdrive.pipeline.audit.engines.file_figures import Continuing, FileFigures
from logdrive.pipeline.audit.engines.line_ends import ENDS
from logdrive.pipeline.audit.engines.row_sums import RUNS
from logdrive.pipeline.audit.sealed_file import FileKey, key_of_file, read_sealed, write_sealed

_NAME = "audit-figures"
_KIND: Final = "figures 1"
"""Count it up with any change of what is kept, or of how it is computed."""


class _KeptFile(msgspec.Struct, frozen=True, array_like=True):
    """A file's key, and how many rows it has in the two tables."""

    name: str
    size: int
    modified_ns: int
    runs: int
    ends: int
    digest: bytes
    continuing: dict[str, int]


class _Kept(msgspec.Struct, frozen=True, array_like=True):
    """All that is kept: the two tables as Arrow streams have the rows of one file after another."""

    files: list[_KeptFile]
    runs: bytes
    ends: bytes


class KnownFiles:
    """Loads and saves figures in the directory *bronze*, for files of the table in *events*."""

    def __init__(self, bronze: str, events: str, disk: Disk) -> None:
        self._path = os.path.join(bronze, _NAME)
        self._events = events
        self._disk = disk

    def key_of(self, path: str) -> FileKey:
        """Return the key of the file at *path*. Raises OSError."""
        return key_of_file(self._disk, path, self._events)

    def load(self) -> dict[FileKey, FileFigures]:
        """Return what is kept; nothing if it can't be used."""
        body = read_sealed(self._disk, self._path, _KIND)
        try:
            return dict(self._unpack(msgspec.msgpack.decode(body, type=_Kept))) if body else {}
        except (msgspec.MsgspecError, pa.ArrowException):
            return {}

    def save(self, figures: Mapping[FileKey, FileFigures]) -> None:
        """Keep *figures* instead of what is there. Raises OSError."""
        files = [
            _KeptFile(*key, len(one.runs), len(one.ends), lines.digest, lines.counts)
            for key, one in figures.items()
            for lines in (one.continuing,)
        ]
        runs = _to_stream(RUNS, [one.runs for one in figures.values()])
        ends = _to_stream(ENDS, [one.ends for one in figures.values()])
        body = msgspec.msgpack.encode(_Kept(files, runs, ends))
        write_sealed(self._disk, self._path, _KIND, body)

    def _unpack(self, kept: _Kept) -> list[tuple[FileKey, FileFigures]]:
        runs, ends = _from_stream(RUNS, kept.runs), _from_stream(ENDS, kept.ends)
        found, run, end = [], 0, 0
        for one in kept.files:
            figures = FileFigures(
                os.path.join(self._events, one.name),
                runs.slice(run, one.runs),
                ends.slice(end, one.ends),
                Continuing(one.digest, one.continuing),
            )
            found.append((FileKey(one.name, one.size, one.modified_ns), figures))
            run, end = run + one.runs, end + one.ends
        return found


def _to_stream(schema: pa.Schema, tables: Sequence[pa.Table]) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(sink, schema, options=options) as writer:
        writer.write_table(pa.concat_tables([schema.empty_table(), *tables]).combine_chunks())
    return bytes(sink.getvalue())


def _from_stream(schema: pa.Schema, data: bytes) -> pa.Table:
    table = pa.ipc.open_stream(data).read_all()
    if table.schema != schema:
        raise pa.ArrowInvalid("other columns")
    return table
