"""Batches of packs as a receiver stores them, also such whose inside lies (R8)."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid5

from logdrive.model.batch import BatchHeader
from logdrive.model.framing import frame_event, frame_events
from logdrive.packs.contents import count_text_lines
from logdrive.packs.cuts import join_cuts
from logdrive.packs.faults import PackFault
from logdrive.packs.pack import PackCodec, PackForm, make_pack

_SPACE = UUID(int=3)


def source_id(name: str) -> str:
    return str(uuid5(_SPACE, name))


def text_batch(
    source: str,
    start: int,
    text: bytes,
    codec: PackCodec = PackCodec.DEFLATE,
    changes: dict[str, Any] | None = None,
) -> bytes:
    """Return *text*, from *start* of its file, as a batch; *changes* are of its header."""
    pack = make_pack(PackForm.TEXT, text, codec)
    end, events = start + len(text), count_text_lines(text)
    return pack_batch(source, "text", pack, start, end, events, changes)


def cut_text_batch(source: str, start: int, text: bytes, lengths: Sequence[int]) -> bytes:
    """Return *text* with its events of *lengths*, negative for what was left out, as a batch."""
    pack = make_pack(PackForm.CUT_TEXT, join_cuts(lengths, text), PackCodec.ZSTD)
    events, skipped = sum(length > 0 for length in lengths), -sum(n for n in lengths if n < 0)
    end = start + len(text) + skipped
    return pack_batch(source, "text", pack, start, end, events, {"skipped": skipped})


def records_batch(source: str, start: int, end: int, records: Sequence[bytes]) -> bytes:
    """Return *records* of the bytes from *start* to *end* as a batch."""
    pack = make_pack(PackForm.RECORDS, frame_events(records), PackCodec.DEFLATE)
    return pack_batch(source, "records", pack, start, end, len(records))


def lying_batch(source: str, start: int, end: int) -> bytes:
    """Return a batch whose pack does not inflate, though its header may stand."""
    pack = bytearray(make_pack(PackForm.TEXT, b"line\n" * ((end - start) // 5), PackCodec.DEFLATE))
    pack[10] ^= 0xFF
    return pack_batch(source, "text", bytes(pack), start, end, (end - start) // 5)


def pack_batch(
    source: str,
    form: str,
    pack: bytes,
    start: int,
    end: int,
    events: int,
    changes: dict[str, Any] | None = None,
) -> bytes:
    """Return a batch whose one record is *pack*."""
    record = frame_event(pack)
    fields: dict[str, Any] = {
        "kind": "data",
        "form": form,
        "source": source_id(source),
        "origin": source_id(source + " origin"),
        "previous": start,
        "position": end,
        "records": 1,
        "events": events,
        "size": len(record),
        "received": 1_700_000_000_000,
        "store": str(UUID(int=7)),
    }
    return frame_event(BatchHeader(**(fields | (changes or {}))).encode()) + record


def no_fault(fault: PackFault) -> None:
    """Fail: no pack of the test lies."""
    raise AssertionError(fault.text)
