"""Lists the dead letters of which the stream has notes, and so the tables (rule R7)."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from logdrive.model.dead_letters import DEAD_LETTER, DISMISSED, parse_decision
from logdrive.pipeline.decode.schema import FOREIGN
from logdrive.pipeline.tables.delta import AppendTable

State = Literal["waiting", "replayed", "dismissed"]
_NOTES = pa.array([DEAD_LETTER, DISMISSED])
_IDS = 10_000  # limit on the ids in one query


class Note(NamedTuple):
    """The columns of `batches` that are read of foreign batches."""

    source: str
    received: int  # µs since 1970
    attributes: str | None  # of a dismissal: who decided, and why
    mark_end: int | None  # of a note: bytes of the letter
    mark_reason: str | None  # `DEAD_LETTER`, `DISMISSED`, or the id of a replayed letter
    mark_exact: bool | None  # of a piece: True if it is the last one
    mark_store: str | None  # the letter's id


@dataclass(slots=True)
class AuditedLetter:
    """An event of *bytes* bytes that is a dead letter: waiting, replayed to a row, or dismissed.

    *at*, *by* and *why* say when it was dismissed, by whom and for what reason.
    """

    id: str | None  # None: its note is of the first versions, which wrote no id
    source: str | None
    bytes: int
    state: State = "waiting"
    at: str | None = None
    by: str | None = None
    why: str | None = None


def has_letters(headers: pa.Table) -> bool:
    """Return whether any of *headers*, rows of `batches`, is a note of a dead letter."""
    return bool(pc.any(pc.is_in(headers["mark_reason"], _NOTES)).as_py())


def read_dead_letters(batches: AppendTable) -> list[AuditedLetter]:
    """Return the dead letters that *batches* has notes of, in order of arrival."""
    reason = pc.field("mark_reason")
    noted = notes_from_table(batches.read_rows(Note._fields, reason.isin(_NOTES)))
    ids = [name for note in noted if (name := note.mark_store) is not None]
    for start in range(0, len(ids), _IDS):  # the pieces of a replay are named by the letter's id
        some = reason.isin(ids[start : start + _IDS]) & (pc.field("kind") == FOREIGN)
        noted += notes_from_table(batches.read_rows(Note._fields, some))
    return letters_from_notes(noted)


def notes_from_table(table: pa.Table) -> list[Note]:
    """Return the rows of *table*, which has the columns of `Note`."""
    columns = {name: table[name] for name in Note._fields}
    columns["received"] = columns["received"].cast(pa.int64())
    rows = zip(*(columns[name].to_pylist() for name in Note._fields), strict=True)
    return sorted((Note(*row) for row in rows), key=lambda note: note.received)


def letters_from_notes(notes: Iterable[Note]) -> list[AuditedLetter]:
    """Return the letters in *notes*, each once: a note may have been appended twice."""
    letters: dict[Any, AuditedLetter] = {}
    rows: set[str | None] = set()
    for number, note in enumerate(notes):
        if note.mark_reason not in (DEAD_LETTER, DISMISSED):
            if note.mark_exact:  # the last piece of a replay: the event is a row
                rows.add(note.mark_reason)
            continue

        name = note.mark_store
        # The first versions' notes have no id in the tables: each is a letter of its own.
        key = number if name is None else name
        letter = letters.setdefault(key, AuditedLetter(name, None, 0))
        letter.bytes = letter.bytes or note.mark_end or 0
        if note.mark_reason == DEAD_LETTER:
            letter.source = note.source
        else:
            _dismiss(letter, note)

    # a letter that was replayed is a row, even if it had been dismissed
    for letter in letters.values():
        if letter.id in rows and letter.id is not None:
            letter.state = "replayed"
    return list(letters.values())


def _dismiss(letter: AuditedLetter, note: Note) -> None:
    decision = parse_decision(note.attributes)
    letter.state, letter.by, letter.why = "dismissed", decision.by, decision.why
    when = datetime.fromtimestamp(note.received / 1_000_000, UTC)
    letter.at = when.isoformat(sep=" ", timespec="seconds")
    letter.source = letter.source or note.source


class Dismissals(NamedTuple):
    """Letters that one person dismissed for one reason; *at* is the time of the last dismissal."""

    by: str
    why: str
    letters: int
    bytes: int
    at: str


def dismissals(letters: Iterable[AuditedLetter]) -> list[Dismissals]:
    """Return the dismissals among *letters*, grouped by person and reason."""
    groups: dict[tuple[str, str], list[AuditedLetter]] = {}
    for letter in letters:
        if letter.state == "dismissed":
            groups.setdefault((letter.by or "", letter.why or ""), []).append(letter)
    return [
        Dismissals(
            by, why, len(some), sum(one.bytes for one in some), max(one.at or "" for one in some)
        )
        for (by, why), some in groups.items()
    ]
