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
  0 itself may always be the first of another file. A line that was read before the known one, as
  one that a backfill brings, tells no life.

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
from logdrive.pipeline.silver.runs import RowNumbers, open_bronze_file
from logdrive.pipeline.silver.sent_lines import SENT_SCHEMA, LineKey, SentFile, SentLines
from logdrive.pipeline.tables.failures import name_read
from logdrive.pipeline.tasks import check_stop

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

    duplicates: Mapping[str, RowNumbers]
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

    def _find_in_file(self, path: str) -> RowNumbers:
        file, first, found = open_bronze_file(path), 0, []
        for group in range(file.num_row_groups):
            check_stop()
            with name_read(path):
                rows = file.read_row_group(group, columns=list(_COLUMNS))
            numbers = np.flatnonzero(_comparable(rows))
            if len(numbers):
                again = self._find_in_rows(rows.take(pa.array(numbers)))
                found.append(first + numbers[again])
            first += rows.num_rows
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _find_in_rows(self, rows: pa.Table) -> "np.typing.NDArray[np.bool_]":
        """Return which of *rows* were sent again; note the others. Costs about 4 µs a row."""
        names, files = self._names_of(rows)
        keys = list(
            zip(files, rows["start"].to_pylist(), _text_hashes(rows["message"]), strict=True)
        )
        self._lines.look_up([file for file in dict.fromkeys(files) if file in self._lines.files])

        again = np.zeros(rows.num_rows, np.bool_)
        places = zip(
            *(rows[name].to_pylist() for name in ("batch", "ordinal")),
            *(rows[name].cast(pa.int64()).to_pylist() for name in ("time", "received")),
            strict=True,
        )
        known = self._lines.files
        for row, (key, name, (batch, ordinal, time, received)) in enumerate(
            zip(keys, names, places, strict=True)
        ):
            file, unsure = known.get(key[0]), False
            if file is not None and (file.is_unsure or _may_be_known(file, key[1], time)):
                duplicate, unsure = self._judge(file, key, time, name)
                if duplicate:
                    again[row] = True
                    continue
            life = 0 if file is None else file.life
            if file is not None and key[1] == 0:  # the first line of another life
                life += 1
            line = (time, name.process, life)
            self._lines.add(key, line)
            self._kept.append((batch, ordinal, *key, *line, unsure, received))
            self._unsure += unsure
        return again

    def _names_of(self, rows: pa.Table) -> tuple[list[_PeerNames], list[int]]:
        """Return for each of *rows* what its record says, and the hash of its file.

        Both are the same for most rows, and made once.
        """
        columns = [rows[name].cast(pa.string()) for name in ("source", "host", "path", "fields")]
        encoded = [column.combine_chunks().dictionary_encode("encode") for column in columns]
        texts = [column.dictionary.to_pylist() for column in encoded]
        codes = list(zip(*(column.indices.to_pylist() for column in encoded), strict=True))
        made: dict[tuple[int, ...], tuple[_PeerNames, int]] = {}
        for code in dict.fromkeys(codes):
            *place, fields = (text[number] for text, number in zip(texts, code, strict=True))
            name = self._names_in(fields)
            made[code] = (name, hash_of(*place, *name.file))
        return [made[code][0] for code in codes], [made[code][1] for code in codes]

    def _names_in(self, fields: str | None) -> _PeerNames:
        names = self._names.get(fields)
        if names is None:
            names = self._names[fields] = _PeerNames(fields)
        return names

    def _judge(
        self, file: SentFile, key: LineKey, time: int | None, name: _PeerNames
    ) -> tuple[bool, bool]:
        """Return whether the line was sent again, and whether that can't be known."""
        seen = self._lines.find(key)
        if seen is None:
            file.is_unsure = False
            return False, False
        seen_time, seen_process, seen_life = seen
        if time is not None and seen_time == time:
            return True, False
        if name.process is not None and seen_process == name.process:
            # a line that the same process read again is of another life
            file.is_unsure = False
            return False, False
        is_later = time is None or seen_time is None or time > seen_time
        was_restarted = is_later and name.process is not None and seen_process is not None
        if name.is_sure or (was_restarted and key[1] > 0 and seen_life == file.life):
            return True, False
        file.is_unsure = True
        return False, True


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


def _text_hashes(messages: pa.ChunkedArray) -> list[int]:
    return [
        int.from_bytes(blake2b(text or b"", digest_size=8).digest(), "big", signed=True)
        for text in messages.cast(pa.binary()).to_pylist()
    ]


def hash_of(*parts: Any) -> int:
    """Return 64 bits of a hash of *parts*, the same in every process."""
    text = orjson.dumps(parts)
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big", signed=True)


def _table(values: Any, name: str) -> Mapping[str, Any]:
    value = values.get(name) if isinstance(values, dict) else None
    return value if isinstance(value, dict) else {}
