"""What a pack holds, and what its batch says of it: the proof that the two agree (rule R8).

The receiver checks with `check_run` what can be told without opening the pack. Who reads it opens
it with `open_run`, which checks the rest. A pack that passes the first and not the second is one
whose inside lies: it is quarantined whole.
"""

from itertools import islice
from typing import Final, NamedTuple

from logdrive.kernel.loops import count_lines
from logdrive.model.batch import BatchHeader
from logdrive.model.framing import EVENT_HEAD, split_events
from logdrive.model.limits import PACK_ITEMS, PACK_LINES, RECORD_BYTES
from logdrive.packs.cuts import count_cuts, split_cuts
from logdrive.packs.pack import PackError, PackForm, PackHead, open_content, parse_head

_RECORD_OBJECT: Final = 64
_LENGTH_OBJECT: Final = 40
"""Bytes of memory that a record, or a length, takes beside its own, about."""


class TextContent(NamedTuple):
    """A stretch of a file."""

    text: bytes
    """The file's own bytes, without those that were left out."""
    lengths: tuple[int, ...] | None
    """Lengths of the events in *text*, negative for what was left out before, between or after
    them (rule R1); None if each event is a line, whose line end the last one may lack.
    """


class RecordsContent(NamedTuple):
    """Events that have fields of their own."""

    records: list[bytes]
    """JSON of each event; not parsed yet."""


def check_run(head: PackHead, *, previous: int, position: int, events: int, skipped: int) -> None:
    """Check that a pack may have *head* in a run that says the rest.

    *previous*, *position* and *skipped* are bytes of the file. Raises `PackError`. What only the
    content shows is not checked: its CRC-32, its true size, and how many events it has.
    """
    if not 0 <= previous < position or not 0 <= skipped <= position - previous:
        raise PackError(f"a pack from {previous} to {position} that leaves out {skipped} bytes")
    match head.form:
        case PackForm.TEXT:
            _check_text(head.size, position - previous, events, skipped)
        case PackForm.CUT_TEXT:
            _check_cut_text(head.size, position - previous - skipped, events, skipped)
        case PackForm.RECORDS:
            _check_records(head.size, events)


def open_run(
    pack: bytes | memoryview, *, previous: int, position: int, events: int, skipped: int
) -> TextContent | RecordsContent:
    """Return what *pack* holds, which is proved to be what its run says; as in `check_run`.

    Takes memory for the size that the pack's head names, twice for `CUT_TEXT` and `RECORDS`, and
    for `PACK_ITEMS` objects; a reader that makes rows, for `PACK_LINES` of them. Raises
    `PackError`.
    """
    return _open(parse_head(pack), pack, previous, position, events, skipped)


def opened_size(head: PackHead, events: int) -> int:
    """Return how many bytes of memory what `open_run` returns takes, about.

    *head* and *events* are those of a run that `check_run` takes.
    """
    match head.form:
        case PackForm.TEXT:
            return head.size
        case PackForm.CUT_TEXT:
            # a length is four bytes of it at the least
            return head.size + _LENGTH_OBJECT * min(head.size // 4, PACK_ITEMS)
        case PackForm.RECORDS:
            return head.size + _RECORD_OBJECT * events


def open_batch(header: BatchHeader, pack: bytes | memoryview) -> TextContent | RecordsContent:
    """Return what *pack* holds, the record of the batch with *header*, as `open_run` does.

    Raises `PackError` also for a header of another form, and of no pack.
    """
    if header.previous is None or header.position is None:
        raise PackError("a pack in a batch without positions")
    head = parse_head(pack)
    if header.form != (form := head.form.in_header):
        raise PackError(f"a pack with {form} in a batch with {header.form}")
    return _open(head, pack, header.previous, header.position, header.events, header.skipped)


def count_text_lines(text: bytes) -> int:
    """Return the number of lines in *text*, the last of which may lack its line end."""
    size = len(text)
    return count_lines(text, 0, size) + (size > 0 and not text.endswith(b"\n"))


def _open(
    head: PackHead,
    pack: bytes | memoryview,
    previous: int,
    position: int,
    events: int,
    skipped: int,
) -> TextContent | RecordsContent:
    check_run(head, previous=previous, position=position, events=events, skipped=skipped)
    content = open_content(head, pack)
    match head.form:
        case PackForm.TEXT:
            _expect_events(count_text_lines(content), events)
            return TextContent(content, None)
        case PackForm.CUT_TEXT:
            return _cut_text(content, position - previous - skipped, events, skipped)
        case PackForm.RECORDS:
            return _records(content, events)


def _check_text(size: int, stretch: int, events: int, skipped: int) -> None:
    if size != stretch or skipped:
        raise PackError(f"a pack of {size} bytes for {stretch}, {skipped} of them left out")
    # each becomes a row, which takes a hundred times the memory of an empty line
    if not 0 < events <= min(size, PACK_LINES):
        raise PackError(f"a pack of {size} bytes with {events} events, {PACK_LINES} at most")


def _check_cut_text(size: int, text: int, events: int, skipped: int) -> None:
    lengths = count_cuts(size, text)
    least = events + (skipped > 0)
    if not 0 <= events <= text or not least <= lengths <= events + skipped:
        raise PackError(f"a pack of {text} bytes of text with {events} events, {lengths} lengths")


def _check_records(size: int, events: int) -> None:
    if not 0 < events <= PACK_ITEMS or size <= EVENT_HEAD * events:
        raise PackError(f"a pack of {size} bytes with {events} records")


def _cut_text(content: bytes, size: int, events: int, skipped: int) -> TextContent:
    lengths, text = split_cuts(content)
    if len(text) != size:
        raise PackError(f"a pack with {len(text)} bytes of text, not {size}")
    _expect_events(sum(length > 0 for length in lengths), events)
    left_out = -sum(length for length in lengths if length < 0)
    if left_out != skipped:
        raise PackError(f"a pack that leaves out {left_out} bytes, not {skipped}")
    return TextContent(text, lengths)


def _records(content: bytes, events: int) -> RecordsContent:
    try:
        # one more shows that there are more; how many is not counted
        records = list(islice(split_events(content), events + 1))
    except ValueError as error:
        raise PackError(f"a pack whose records can't be told apart: {error}") from error
    if len(records) > events:
        raise PackError(f"a pack of more than {_count(events)}, not {events}")
    _expect_events(len(records), events)
    if not all(0 < len(record) <= RECORD_BYTES for record in records):
        raise PackError(f"a pack with a record of no byte, or of more than {RECORD_BYTES}")
    return RecordsContent(records)


def _expect_events(found: int, events: int) -> None:
    if found != events:
        raise PackError(f"a pack of {_count(found)}, not {events}")


def _count(events: int) -> str:
    return f"{events} event{'s' * (events != 1)}"
