"""Segments made by hand: batches as a receiver writes them, records as an agent does."""

import base64
from collections.abc import Sequence
from dataclasses import dataclass, field
from uuid import UUID, uuid5

import msgspec
import orjson

from logdrive.model import records as record
from logdrive.model.batch import BatchHeader
from logdrive.model.dead_letters import Decision, Letter, encode_note
from logdrive.model.framing import frame_event, frame_events, split_events
from logdrive.model.record_walker import batch_at_record, frame_batch
from logdrive.packs.contents import count_text_lines
from logdrive.packs.pack import PackCodec, PackForm, make_pack
from logdrive.pipeline.decode.batches import walk_batches

STORE = str(UUID(int=7))
STREAM = "logs/app"
SEGMENT = "logs/app/0.#epoch.0"
SPACE = UUID(int=1)


def source_id(name: str) -> str:
    return str(uuid5(SPACE, name))


@dataclass
class Segment:
    """A segment that grows; its bytes are `bytes(segment.data)`."""

    name: str = SEGMENT
    store: str = STORE
    clock: int = 1_700_000_000_000
    data: bytearray = field(default_factory=bytearray)

    def data_batch(
        self,
        source: str,
        previous: int,
        position: int,
        records: Sequence[bytes],
        events: int,
        **more: object,
    ) -> None:
        self.batch("data", source, records, events, previous=previous, position=position, **more)

    def pack(
        self, source: str, previous: int, position: int, pack: bytes, events: int, **more: object
    ) -> None:
        """Append a batch of one pack (R8); *form* and *skipped* may be given."""
        values = {"form": "text"} | more
        self.data_batch(source, previous, position, [pack], events, **values)

    def packed(
        self, source: str, data: bytes, start: int = 0, codec: PackCodec = PackCodec.DEFLATE
    ) -> int:
        """Append *data*, which is at *start* in its file, as a pack; return its end there."""
        position = start + len(data)
        pack = make_pack(PackForm.TEXT, data, codec)
        self.pack(source, start, position, pack, count_text_lines(data))
        return position

    def gap(self, source: str, start: int, end: int, reason: str, *, exact: bool = True) -> None:
        payload = record.gap_record(start, end, reason, end_exact=exact)
        self.batch(
            "gap",
            source,
            [payload],
            0,
            previous=start,
            position=end,
            mark=msgspec.Raw(record.mark_in_record(payload)),
        )

    def ended(
        self, source: str, end: int, reason: str = "removed", path: str | None = None
    ) -> None:
        """Append an end record; *path* is that of the source, where it has another than usual."""
        payload = record.end_record(end, reason)
        self.batch(
            "end",
            source,
            [payload],
            0,
            previous=end,
            position=end,
            mark=msgspec.Raw(record.mark_in_record(payload)),
            attributes=None if path is None else {"host": "web-1", "path": path},
        )

    def foreign(self, source: str, records: Sequence[bytes], events: int | None = None) -> None:
        self.batch("foreign", source, records, len(records) if events is None else events)

    def piece(self, source: str, event: bytes, start: int, end: int, name: str = "e") -> None:
        """Append bytes [*start*, *end*) of *event*, as a piece (R6)."""
        mark = msgspec.Raw(
            orjson.dumps({"event": name, "start": start, "end": end, "bytes": len(event)})
        )
        self.batch("foreign", source, [event[start:end]], int(end == len(event)), mark=mark)

    def dead_letter(self, source: str, size: int, name: str = "letter") -> str:
        """Append the note of an event of *size* bytes that is a dead letter (R7); return its id."""
        letter = source_id(name)
        mark = msgspec.Raw(orjson.dumps({"reason": "dead_letter", "end": size, "letter": letter}))
        self.batch("foreign", source, [], 0, mark=mark)
        return letter

    def dismissal(self, letter: str, size: int, by: str, why: str) -> None:
        """Append the note that a dead letter was dismissed (R7)."""
        self.clock += 10
        mark = Letter("dead_letter_dismissed", size, letter)
        self.data += encode_note(
            mark, UUID(int=0), self.store, self.clock, decision=Decision(by, why)
        )

    def batch(
        self, kind: str, source: str, records: Sequence[bytes], events: int, **more: object
    ) -> None:
        self.clock += 10
        body = frame_events(records)
        attributes = more.pop("attributes", None) or {
            "host": "web-1",
            "path": f"/var/log/{source}.log",
        }
        values = {
            "kind": kind,
            "source": source_id(source),
            "origin": None if kind == "foreign" else source_id(source + "/origin"),
            "records": len(records),
            "events": events,
            "size": len(body),
            "read": self.clock - 5,
            "received": self.clock,
            "store": self.store,
            "attributes": msgspec.Raw(orjson.dumps(attributes)),
        }
        self.data += frame_event(BatchHeader(**(values | more)).encode()) + body  # type: ignore[arg-type]

    def stray(self, payload: bytes) -> None:
        """Append an event without a header before it."""
        self.data += frame_event(payload)


def as_records(segment: Segment, offset: int) -> bytes:
    """Return *segment* as readers give it where offsets count records; the first is *offset*."""
    data, stored = b"", bytes(segment.data)
    for batch in walk_batches(segment.name, 0, stored):
        payloads = list(split_events(stored, batch.body, batch.next))
        data += frame_batch(batch_at_record(offset, batch.payload), payloads)
        offset += 1 + len(payloads)
    return data


def lines(source: str, first: int, count: int) -> bytes:
    return b"".join(
        b"%s line %d \xc3\xa4\n" % (source.encode(), n) for n in range(first, first + count)
    )


def text_block(data: bytes, start: int) -> bytes:
    """Return valid UTF-8 as a block of lines."""
    return record.block_record(
        start, start + len(data), data.count(b"\n") + (not data.endswith(b"\n")), data.decode()
    )


def line_record(line: bytes, start: int) -> bytes:
    """Return one line, with its line end, as a lean record, as rule R2 wants it."""
    bare, eol = line, ""
    for candidate in (b"\r\n", b"\n"):
        if line.endswith(candidate):
            bare, eol = line[: -len(candidate)], candidate.decode()
            break
    try:
        return record.lean_record(start, start + len(line), bare.decode(), eol=eol)
    except UnicodeDecodeError:
        exact = base64.b64encode(bare).decode()
        return record.lean_record(
            start, start + len(line), bare.decode(errors="replace"), eol=eol, original=exact
        )


def file_records(data: bytes, start: int = 0) -> tuple[list[bytes], int]:
    """Return *data* as an agent sends it: blocks of valid lines, lean records for the others; and
    how many events that is.
    """
    records: list[bytes] = []
    count, held, held_at = 0, b"", start
    for line in data.splitlines(keepends=True) if b"\r" not in data else _split(data):
        count += 1
        try:
            line.decode()
            held += line
            continue
        except UnicodeDecodeError:
            pass
        if held:
            records.append(text_block(held, held_at))
        at = held_at + len(held)
        records.append(line_record(line, at))
        held, held_at = b"", at + len(line)
    if held:
        records.append(text_block(held, held_at))
    return records, count


def _split(data: bytes) -> list[bytes]:
    parts = [part + b"\n" for part in data.split(b"\n")]
    parts[-1] = parts[-1][:-1]
    return [part for part in parts if part]
