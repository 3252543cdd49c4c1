"""Finds the lines that foreign peers sent again, by the coordinates that they give (ADR 32).

A peer such as Filebeat sends again what was not acknowledged, and what its registry did not have
when it was restarted. Its lines have a path and an offset. That does not tell a line that was sent
again from one of another file under the same path, which begins at 0 anew: so the text must agree,
too, and one of these:

- the time (`@timestamp`, at which Filebeat read the line): it is the same event;
- the file, by inode, fingerprint or origin, and another process read it: the shipper was restarted,
  and read the file again. A process that is still the same reads a file again only if it was
  truncated or replaced;
- without these a restart and the life: the lines of a path since one at offset 0. A line at offset
  0 itself may always be the first of another file.

What can't be known is kept, and counted as unsure. Lines without path or offset are never compared.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.decode.records import FOREIGN
from logdrive.pipeline.decode.schema import QUARANTINED
from logdrive.pipeline.silver.runs import Rows, open_bronze_file
from logdrive.pipeline.silver.sent_lines import SENT_SCHEMA, LineKey, SentFile, SentLine, SentLines

_COLUMNS = (
    "batch",
    "ordinal",
    "source",
    "host",
    "path",
    "start",
    "message",
    "form",
    "flag",
    "fields",
    "time",
    "received",
)


@dataclass(frozen=True, slots=True)
class FoundResends:
    """What was found in some files of bronze."""

    duplicates: Mapping[str, Rows]
    """Numbers of the rows of each file that were sent again."""
    sent: pa.Table
    """Rows for the table `sent`: the lines that are kept."""
    unsure: int
    """Lines that are kept though they may be there already."""


class _PeerNames:
    """What the rest of a record says of the file and the shipper, as hashes."""

    def __init__(self, fields: str | None) -> None:
        said: Any = orjson.loads(fields) if fields else {}
        log, agent = _table(said, "log"), _table(said, "agent")
        file = _table(log, "file")
        names = [
            file.get("inode") or said.get("log.file.inode"),
            file.get("device_id") or said.get("log.file.device_id"),
            file.get("fingerprint") or said.get("log.file.fingerprint"),
            log.get("origin"),
        ]
        # names of the file that are not only its path
        self.file = names
        self.is_sure = any(name is not None for name in names)
        process = agent.get("ephemeral_id") or said.get("agent.ephemeral_id")
        self.process = None if process is None else hash_of(str(process))


class Resends:
    """Tells lines that come again from new ones, in the order in which they are in bronze."""

    def __init__(self, lines: SentLines) -> None:
        self._lines = lines
        self._kept: list[tuple[Any, ...]] = []
        self._unsure = 0
        # fields -> what they say: the same for all lines of a file
        self._names: dict[str | None, _PeerNames] = {}

    def find(self, paths: Sequence[str]) -> FoundResends:
        """Look through the files of bronze at *paths*, which have foreign peers' rows."""
        self._kept, self._unsure, self._names = [], 0, {}
        duplicates = {path: self._find_in_file(path) for path in paths}
        arrays = [
            pa.array([line[place] for line in self._kept], field.type)
            for place, field in enumerate(SENT_SCHEMA)
        ]
        return FoundResends(
            {path: rows for path, rows in duplicates.items() if len(rows)},
            pa.Table.from_arrays(arrays, schema=SENT_SCHEMA),
            self._unsure,
        )

    def _find_in_file(self, path: str) -> Rows:
        file, first, found = open_bronze_file(path), 0, []
        for group in range(file.num_row_groups):
            rows = file.read_row_group(group, columns=list(_COLUMNS))
            numbers = np.flatnonzero(_comparable(rows))
            if len(numbers):
                again = self._find_in_rows(rows.take(pa.array(numbers)))
                found.append(first + numbers[again])
            first += rows.num_rows
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _find_in_rows(self, rows: pa.Table) -> "np.typing.NDArray[np.bool_]":
        """Return which of *rows* were sent again; note the others."""
        times = rows["time"].cast(pa.int64()).to_pylist()
        received = rows["received"].cast(pa.int64()).to_pylist()
        values = [rows[name].to_pylist() for name in _COLUMNS[:7]]
        fields = rows["fields"].to_pylist()
        names = [self._names_in(text) for text in fields]
        keys = [
            LineKey(hash_of(source, host, path, *name.file), start, hash_of(message))
            for source, host, path, start, message, name in zip(*values[2:], names, strict=True)
        ]
        known = (key.file for key in keys if key.file in self._lines.files)
        self._lines.look_up(list(dict.fromkeys(known)))

        again = np.zeros(rows.num_rows, np.bool_)
        for row, (key, name) in enumerate(zip(keys, names, strict=True)):
            duplicate, unsure = self._judge(key, times[row], name)
            again[row] = duplicate
            if not duplicate:
                line = self._keep(key, times[row], name.process)
                place = (values[0][row], values[1][row])
                self._kept.append((*place, *key, *line, unsure, received[row]))
                self._unsure += unsure
        return again

    def _names_in(self, fields: str | None) -> _PeerNames:
        names = self._names.get(fields)
        if names is None:
            names = self._names[fields] = _PeerNames(fields)
        return names

    def _judge(self, key: LineKey, time: int | None, name: _PeerNames) -> tuple[bool, bool]:
        """Return whether the line was sent again, and whether that can't be known."""
        file = self._lines.files.get(key.file)
        if file is None or not (file.is_unsure or _may_be_known(file, key.start, time)):
            return False, False
        seen = self._lines.find(key)
        if seen is not None and time is not None and seen.time == time:
            return True, False
        if seen is None or (name.process is not None and seen.process == name.process):
            # a new line, or one that the same process read again: it is of another life
            file.is_unsure = False
            return False, False
        was_restarted = name.process is not None and seen.process is not None
        if name.is_sure or (was_restarted and key.start > 0 and seen.life == file.life):
            return True, False
        file.is_unsure = True
        return False, True

    def _keep(self, key: LineKey, time: int | None, process: int | None) -> SentLine:
        file = self._lines.files.get(key.file)
        life = 0 if file is None else file.life
        if file is not None and key.start == 0:  # the first line of another life
            life += 1
        line = SentLine(time, process, life)
        self._lines.add(key, line)
        return line


def _may_be_known(file: SentFile, start: int, time: int | None) -> bool:
    """Return False for a line that lies behind all others of its file, and was read later."""
    return start <= file.furthest or time is None or file.newest is None or time <= file.newest


def _comparable(rows: pa.Table) -> "np.typing.NDArray[np.bool_]":
    """Return which rows are lines of foreign peers with a path and an offset."""
    flagged = pc.is_in(rows["flag"].cast(pa.string()), pa.array(QUARANTINED))
    is_foreign = pc.equal(rows["form"].cast(pa.string()), FOREIGN)
    placed = pc.and_(pc.is_valid(rows["start"]), pc.is_valid(rows["path"]))
    chosen = pc.and_(pc.and_(is_foreign, placed), pc.invert(flagged))
    mask: np.typing.NDArray[np.bool_] = pc.fill_null(chosen, False).to_numpy()
    return mask


def hash_of(*parts: Any) -> int:
    """Return 64 bits of a hash of *parts*, the same in every process."""
    text = orjson.dumps(parts)
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


def _table(values: Any, name: str) -> Mapping[str, Any]:
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, dict) else {}
