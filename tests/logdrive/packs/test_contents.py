"""Rule R8: a pack's inside is what its batch says, or it is not read at all."""

from typing import Any
from zlib import crc32

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from logdrive.model.batch import BatchHeader
from logdrive.model.limits import PACK_ITEMS, PACK_LINES, RECORD_BYTES
from logdrive.model.units import MIB
from logdrive.packs.contents import (
    RecordsContent,
    TextContent,
    check_run,
    count_text_lines,
    open_batch,
    open_run,
)
from logdrive.packs.cuts import join_cuts
from logdrive.packs.pack import PackCodec, PackError, PackForm, PackHead, make_pack, parse_head
from tests.logdrive.packs.made import CUT_TEXT, RECORDS, framed, pack_of

Figures = dict[str, int]


def figures(stretch: int, events: int, skipped: int = 0) -> Figures:
    return {"previous": 50, "position": 50 + stretch, "events": events, "skipped": skipped}


lines = st.lists(
    st.sampled_from([b"\n", b"a\n", b"b\r\n", b"\0\n", b"\xff\xfe\n", b"c" * 300 + b"\n"]),
    min_size=1,
    max_size=9,
)
codecs = st.sampled_from(list(PackCodec))


@given(lines, st.sampled_from([b"", b"no line end", b"\r"]), codecs)
def test_any_text_comes_back(whole: list[bytes], last: bytes, codec: PackCodec) -> None:
    text = b"".join(whole) + last
    pack = make_pack(PackForm.TEXT, text, codec)
    events = len(whole) + bool(last)
    assert count_text_lines(text) == events
    assert open_run(pack, **figures(len(text), events)) == TextContent(text, None)


@given(
    st.lists(st.integers(1, 9) | st.integers(-(2**31), -1), min_size=1, max_size=9),
    codecs,
)
def test_any_cut_text_comes_back(lengths: list[int], codec: PackCodec) -> None:
    kept = [length for length in lengths if length > 0]
    text = bytes(range(sum(kept)))
    pack = make_pack(PackForm.CUT_TEXT, join_cuts(lengths, text), codec)
    skipped = sum(kept) - sum(lengths)
    said = figures(sum(kept) + skipped, len(kept), skipped)
    assert open_run(pack, **said) == TextContent(text, tuple(lengths))


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=9), codecs)
def test_any_records_come_back(records: list[bytes], codec: PackCodec) -> None:
    pack = make_pack(PackForm.RECORDS, framed(records), codec)
    assert open_run(pack, **figures(1, len(records))) == RecordsContent(records)


TEXT_PACK = pack_of(b"one\ntwo\n")
CUT_PACK = pack_of(join_cuts([4, -6, 4], b"one\ntwo\n"), form=CUT_TEXT)
RECORDS_PACK = pack_of(framed([b"{}", b"{}"]), form=RECORDS)


@pytest.mark.parametrize(
    ("pack", "said"),
    [
        (TEXT_PACK, figures(8, 2)),
        (CUT_PACK, figures(14, 2, 6)),
        (RECORDS_PACK, figures(9, 2)),
        (RECORDS_PACK, figures(9, 2, 4)),
        (pack_of(join_cuts([-6], b""), form=CUT_TEXT), figures(6, 0, 6)),
        (pack_of(b"\n" * PACK_LINES), figures(PACK_LINES, PACK_LINES)),
    ],
)
def test_figures_that_are_true_are_taken(pack: bytes, said: Figures) -> None:
    check_run(parse_head(pack), **said)
    open_run(pack, **said)


OUTSIDE: list[tuple[bytes, Figures]] = [
    (TEXT_PACK, figures(9, 2)),
    (TEXT_PACK, figures(7, 2)),
    (TEXT_PACK, figures(8, 0)),
    (TEXT_PACK, figures(8, 9)),
    (TEXT_PACK, figures(9, 2, 1)),
    (TEXT_PACK, figures(8, 2, 9)),
    (TEXT_PACK, figures(8, 2, -1)),
    (TEXT_PACK, figures(0, 2)),
    (TEXT_PACK, figures(-8, 2)),
    (pack_of(b"\n" * (PACK_LINES + 1)), figures(PACK_LINES + 1, PACK_LINES + 1)),
    (TEXT_PACK, {"previous": -8, "position": 0, "events": 2, "skipped": 0}),
    (CUT_PACK, figures(14, 2, 5)),
    (CUT_PACK, figures(13, 2, 6)),
    (CUT_PACK, figures(14, 3, 6)),
    (CUT_PACK, figures(14, 9, 6)),
    (CUT_PACK, figures(14, -1, 6)),
    (CUT_PACK, figures(20, 2, 6)),
    (pack_of(join_cuts([4, 4], b"one\ntwo\n"), form=CUT_TEXT), figures(8, 1)),
    (RECORDS_PACK, figures(9, 0)),
    (RECORDS_PACK, figures(9, 3)),
    (RECORDS_PACK, figures(9, 2, 10)),
    (pack_of(framed([b"{}"] * (PACK_ITEMS + 1)), form=RECORDS), figures(9, PACK_ITEMS + 1)),
]


@pytest.mark.parametrize("number", range(len(OUTSIDE)))
def test_figures_that_no_such_pack_has_are_refused_before_it_is_opened(number: int) -> None:
    pack, said = OUTSIDE[number]
    head = parse_head(pack)
    with pytest.raises(PackError):
        check_run(head, **said)
    with pytest.raises(PackError):
        open_run(pack, **said)


INSIDE: dict[str, tuple[bytes, Figures, str]] = {
    "fewer lines": (TEXT_PACK, figures(8, 3), "a pack of 2 events, not 3"),
    "more lines": (TEXT_PACK, figures(8, 1), "a pack of 2 events, not 1"),
    "other bytes": (pack_of(b"one\ntwo\n", crc=crc32(b"")), figures(8, 2), "another CRC-32"),
    "fewer events in cut text": (
        pack_of(join_cuts([8, -3, -3], b"one\ntwo\n"), form=CUT_TEXT),
        figures(14, 2, 6),
        "a pack of 1 event, not 2",
    ),
    "more left out": (
        pack_of(join_cuts([4, -7, 4], b"one\ntwo\n"), form=CUT_TEXT),
        figures(14, 2, 6),
        "leaves out 7 bytes, not 6",
    ),
    "lengths of another text": (
        pack_of(join_cuts([4, -6, 3], b"one\ntwo\n"), form=CUT_TEXT),
        figures(14, 2, 6),
        "not those of its text",
    ),
    # the sum of all is right, and each by itself is not
    "a length in place of text": (
        pack_of(join_cuts([3, -5, -1, 1], b"one\n"), form=CUT_TEXT),
        figures(14, 2, 6),
        "4 bytes of text, not 8",
    ),
    "fewer records": (
        pack_of(framed([b'{"a":1234}']), form=RECORDS),
        figures(9, 2),
        "a pack of 1 event, not 2",
    ),
    "more records": (RECORDS_PACK, figures(9, 1), "a pack of more than 1 event, not 1"),
    "a record without bytes": (
        pack_of(framed([b"", b"{}"]), form=RECORDS),
        figures(9, 2),
        "a record of no byte",
    ),
    "a record that is too long": (
        make_pack(PackForm.RECORDS, framed([bytes(RECORD_BYTES + 1)]), PackCodec.DEFLATE),
        figures(9, 1),
        "a record of no byte, or of more than",
    ),
    "records cut off": (
        pack_of(framed([b"{}", b"{}"])[:-1], form=RECORDS),
        figures(9, 2),
        "can't be told apart",
    ),
    "records of another type": (
        pack_of(b"\0\0\0\1" + framed([b"{}"])[4:], form=RECORDS),
        figures(9, 1),
        "can't be told apart",
    ),
    "another form": (
        pack_of(b"not framed at all, though it says so\n", form=RECORDS),
        figures(38, 1),
        "can't be told apart",
    ),
}


@pytest.mark.parametrize("lie", INSIDE)
def test_a_pack_whose_inside_contradicts_its_batch_is_not_read(lie: str) -> None:
    pack, said, reason = INSIDE[lie]
    check_run(parse_head(pack), **said)  # nothing is to be seen from outside
    with pytest.raises(PackError, match=reason):
        open_run(pack, **said)


def test_a_flood_of_records_that_nobody_announced_is_not_cut() -> None:
    """4 MiB of empty records would be half a million objects."""
    flood = make_pack(PackForm.RECORDS, bytes(4 * MIB), PackCodec.DEFLATE)
    with pytest.raises(PackError, match="a pack of more than 2 events, not 2"):
        open_run(flood, **figures(9, 2))


@given(
    st.sampled_from(list(PackForm)),
    st.binary(min_size=1, max_size=60) | lines.map(framed) | lines.map(b"".join),
    st.integers(0, 70),
    st.integers(0, 9),
    st.integers(0, 9),
)
def test_whatever_is_opened_is_what_was_said(
    form: PackForm, content: bytes, stretch: int, events: int, skipped: int
) -> None:
    said = figures(stretch, events, skipped)
    try:
        opened = open_run(make_pack(form, content, PackCodec.STORED), **said)
    except PackError:
        return
    if isinstance(opened, RecordsContent):
        assert (framed(opened.records), len(opened.records)) == (content, events)
    elif opened.lengths is None:
        assert opened.text == content
        assert (stretch, skipped) == (len(content), 0)
    else:
        kept = [length for length in opened.lengths if length > 0]
        assert join_cuts(opened.lengths, opened.text) == content
        assert (len(kept), sum(kept)) == (events, len(opened.text))
        assert sum(kept) - sum(opened.lengths) == skipped == stretch - sum(kept)


def header(**changed: Any) -> BatchHeader:
    whole = BatchHeader(
        kind="data",
        form="text",
        source="s",
        previous=50,
        position=58,
        records=1,
        events=2,
        size=8 + len(TEXT_PACK),
        received=1,
        store="t",
    )
    return msgspec.structs.replace(whole, **changed)


def test_a_batch_says_what_its_pack_holds() -> None:
    assert open_batch(header(), TEXT_PACK) == TextContent(b"one\ntwo\n", None)
    cut = header(position=64, skipped=6)
    assert open_batch(cut, CUT_PACK) == TextContent(b"one\ntwo\n", (4, -6, 4))
    assert open_batch(header(form="records"), RECORDS_PACK) == RecordsContent([b"{}", b"{}"])


@pytest.mark.parametrize(
    "said",
    [
        header(form=msgspec.UNSET),
        header(form="records"),
        header(previous=None),
        header(position=None),
        header(events=3),
        header(position=59),
        header(skipped=1),
    ],
)
def test_a_pack_of_another_batch_is_not_read(said: BatchHeader) -> None:
    with pytest.raises(PackError):
        open_batch(said, TEXT_PACK)


def test_forms_have_the_names_that_headers_give_them() -> None:
    assert [form.in_header for form in PackForm] == ["text", "text", "records"]


def test_a_figure_of_a_run_is_checked_for_every_form() -> None:
    """A form that is added to `PackForm` needs a check of its own."""
    for form in PackForm:
        head = PackHead(form, PackCodec.STORED, 8, 0)
        with pytest.raises(PackError):
            check_run(head, **figures(0, 0))
        with pytest.raises(PackError):
            check_run(head, **figures(8, -1))
