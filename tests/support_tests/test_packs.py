"""The tests' own reader of packs: it reads what the product writes, and takes no lie."""

from typing import Any

import pytest

from logdrive.model.records import lean_record
from logdrive.packs.pack import PackCodec, PackForm, make_pack, open_pack
from tests.support.packs import (
    CUT_TEXT,
    DEFLATE,
    RECORDS,
    STORED,
    TEXT,
    ZSTD,
    DamagedPackError,
    cut_text,
    framed,
    packed,
    unpacked,
)

_DATA = b"one\ntwo \xff\nlast" * 30
_EVENTS = 61


def _header(**changes: Any) -> dict[str, Any]:
    header = {"form": "text", "previous": 7, "position": 7 + len(_DATA), "events": _EVENTS}
    return {**header, "skipped": 0, **changes}


@pytest.mark.parametrize("codec", PackCodec)
def test_packs_of_the_product_are_read(codec: PackCodec) -> None:
    held = unpacked(make_pack(PackForm.TEXT, _DATA, codec), _header())
    assert (held.pieces, held.events) == ([(7, _DATA)], _EVENTS)


@pytest.mark.parametrize("codec", [STORED, DEFLATE, ZSTD])
def test_the_product_reads_packs_made_here(codec: int) -> None:
    assert open_pack(packed(TEXT, _DATA, codec))[1] == _DATA


def test_what_was_left_out_has_its_place_but_no_bytes() -> None:
    pack = packed(CUT_TEXT, cut_text([4, -10, 3], b"one\ntwo"))
    held = unpacked(pack, _header(position=24, events=2, skipped=10))
    assert held.pieces == [(7, b"one\n"), (21, b"two")]


def test_records_follow_on_one_another() -> None:
    records = [lean_record(7, 11, "one"), lean_record(11, 14, "two", eol="")]
    header = _header(form="records", position=14, events=2)
    held = unpacked(packed(RECORDS, framed(records)), header)
    assert held.pieces == [(7, b"one\n"), (11, b"two")]
    with pytest.raises(DamagedPackError, match="a record at 7 after 14"):
        unpacked(packed(RECORDS, framed(records[::-1])), header)
    left_out = packed(RECORDS, framed(records[1:]))
    assert unpacked(left_out, header | {"events": 1, "skipped": 4}).pieces == [(11, b"two")]
    with pytest.raises(DamagedPackError, match="skipped are"):
        unpacked(left_out, header | {"events": 1})


@pytest.mark.parametrize(
    "pack",
    [
        packed(TEXT, _DATA, crc=1),
        packed(TEXT, _DATA, size=len(_DATA) + 1),
        packed(TEXT, _DATA[:-1], size=len(_DATA)),
        packed(TEXT, _DATA)[:-1],
        packed(TEXT, _DATA) + b"\0",
        packed(TEXT, _DATA, ZSTD)[:-1],
        packed(TEXT, _DATA, STORED, codec=DEFLATE),
        packed(RECORDS, _DATA),
        packed(CUT_TEXT, cut_text([4], _DATA)),
        packed(CUT_TEXT, b"\xff\xff\xff\xff"),
    ],
)
def test_no_lie_of_a_pack_is_taken(pack: bytes) -> None:
    with pytest.raises(DamagedPackError):
        unpacked(pack, _header())


@pytest.mark.parametrize(
    "wrong", [{"events": 1}, {"position": 8}, {"previous": 8}, {"skipped": 1}, {"form": "records"}]
)
def test_no_lie_of_a_header_is_taken(wrong: dict[str, Any]) -> None:
    with pytest.raises(DamagedPackError):
        unpacked(packed(TEXT, _DATA), _header(**wrong))
