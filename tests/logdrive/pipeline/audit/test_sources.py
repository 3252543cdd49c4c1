"""Rule A3 per source: kept intervals and gaps tile [0, last), and what is missing is named."""

from pathlib import Path

import msgspec
import pyarrow as pa

from logdrive.pipeline.audit.audit import verdict
from logdrive.pipeline.audit.heads import heads_from_table
from logdrive.pipeline.audit.judge_sources import audit_sources
from logdrive.pipeline.audit.sources import AuditedSource
from logdrive.pipeline.audit.verify_rows import Proof
from logdrive.pipeline.decode.decode import Decoder
from logdrive.pipeline.decode.headers import batches_table
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import SEGMENT, STREAM, Segment, lines, source_id


def batches_in(segment: Segment) -> pa.Table:
    decoder = Decoder(STREAM)
    decoder.decode_batches(SEGMENT, 0, bytes(segment.data))
    return batches_table(decoder.take_tables()[1])


def judged(segment: Segment) -> dict[str, AuditedSource]:
    return {
        source.source: source for source in audit_sources(heads_from_table(batches_in(segment)))
    }


def complete(segment: Segment) -> bool:
    return verdict(list(judged(segment).values()), Proof(0, 0, 0, 0, 0, []), 0).complete


def gaps(source: AuditedSource) -> list[tuple[int, int, str, int]]:
    return [(gap.start, gap.end, gap.reason, gap.lost_bytes) for gap in source.gaps]


def test_a3_a_source_without_holes_is_complete_and_open_until_its_end_record() -> None:
    segment, data = Segment(), lines("a", 0, 10)
    at = send(segment, "a", data)
    source = judged(segment)[source_id("a")]
    assert (
        source.state,
        source.last,
        source.bytes,
        source.events,
        source.lost_bytes,
        source.gaps,
    ) == ("open", at, at, 10, 0, [])
    segment.ended("a", at, "truncated")
    source = judged(segment)[source_id("a")]
    assert (source.state, source.ended, source.heard) == ("ended", "truncated", segment.clock)
    assert complete(segment)


def test_a3_bytes_in_no_row_and_no_gap_are_lost_without_a_reason() -> None:
    segment, data = Segment(), lines("a", 0, 10)
    send(segment, "a", data[:40])
    send(segment, "a", data[60:], 60)
    assert gaps(judged(segment)[source_id("a")]) == [(40, 60, "unexplained", 20)]
    assert not complete(segment)


def test_a3_the_end_record_tells_of_bytes_that_never_came() -> None:
    segment, data = Segment(), lines("a", 0, 10)
    at = send(segment, "a", data)
    segment.ended("a", at + 7)
    assert gaps(judged(segment)[source_id("a")]) == [(at, at + 7, "unexplained", 7)]


def test_p4_a_gap_is_lost_with_its_reason_and_only_once() -> None:
    segment, data = Segment(), lines("a", 0, 10)
    send(segment, "a", data[:40])
    segment.gap("a", 40, 60, "removed")
    segment.gap("a", 50, 60, "removed")
    send(segment, "a", data[60:], 60)
    source = judged(segment)[source_id("a")]
    assert gaps(source) == [(40, 60, "removed", 20), (50, 60, "removed", 0)]
    assert (source.lost_bytes, source.lost_at_least) == (20, False)
    assert not complete(segment)


def test_p4_an_end_that_is_not_exact_means_lost_at_least() -> None:
    segment = Segment()
    at = send(segment, "a", lines("a", 0, 2))
    segment.gap("a", at, at, "truncated", exact=False)
    source = judged(segment)[source_id("a")]
    assert (source.lost_bytes, source.lost_at_least) == (0, True)
    assert not complete(segment)


def test_p4_an_end_record_may_say_that_the_end_is_not_known() -> None:
    segment = Segment()
    at = send(segment, "a", lines("a", 0, 2))
    mark = msgspec.Raw(b'{"end":%d,"reason":"truncated","end_exact":false}' % at)
    segment.batch(
        "end", "a", [b'{"log":{"ended":%b}}' % bytes(mark)], 0, previous=at, position=at, mark=mark
    )
    source = judged(segment)[source_id("a")]
    assert gaps(source) == [(at, at, "truncated", 0)]
    assert (source.state, source.lost_bytes, source.lost_at_least) == ("ended", 0, True)
    assert not complete(segment)


def test_p2_bytes_that_were_not_wanted_are_not_lost() -> None:
    segment = Segment()
    segment.gap("a", 0, 100, "not_wanted")
    send(segment, "a", lines("a", 0, 2), 100)
    assert gaps(judged(segment)[source_id("a")]) == [(0, 100, "not_wanted", 0)]
    assert complete(segment)


def test_d5_elsewhere_is_lost_only_as_far_as_no_rows_came_anywhere() -> None:
    """History 13: two receivers with a store each, both read into these tables."""
    segment, data = Segment(), lines("a", 0, 10)
    segment.gap("a", 0, 100, "elsewhere")
    send(segment, "a", data[100:], 100)
    send(segment, "a", data[:80])
    assert gaps(judged(segment)[source_id("a")]) == [(0, 100, "elsewhere", 20)]
    send(segment, "a", data[80:100], 80)
    assert gaps(judged(segment)[source_id("a")]) == [(0, 100, "elsewhere", 0)]
    assert complete(segment)


def test_a3_kept_intervals_that_overlap_are_doubled() -> None:
    segment, data = Segment(), lines("a", 0, 10)
    send(segment, "a", data)
    send(segment, "a", data[50:80], 50)
    assert judged(segment)[source_id("a")].doubled_bytes == 30


def test_a4_a_deliberate_resend_is_a_source_of_its_own_and_says_so() -> None:
    segment, data = Segment(), lines("a", 0, 3)
    at = send(segment, "a", data)
    segment.ended("a", at, "resent")
    segment.data_batch(
        "a again", 0, at, [], 0, attributes={"host": "h", "path": "/p", "resend": True}
    )
    verdict = judged(segment)
    assert (verdict[source_id("a")].ended, verdict[source_id("a")].resend) == ("resent", False)
    assert verdict[source_id("a again")].resend


def test_foreign_clients_have_no_positions_and_so_no_holes(tmp_path: Path) -> None:
    segment = Segment()
    segment.foreign("beats", [b'{"message":"x","log":{"offset":99}}'])
    source = judged(segment)[source_id("beats")]
    assert (source.foreign, source.events, source.gaps) == (True, 1, [])
    assert complete(segment)


def complete_to(source: AuditedSource) -> tuple[int, bool]:
    return source.complete_to, source.complete_to == source.last


def test_a3_a_source_is_complete_up_to_its_first_hole() -> None:
    segment, data = Segment(), lines("a", 0, 20)
    segment.gap("a", 0, 10, "not_wanted")
    send(segment, "a", data[10:60], 10)
    assert complete_to(judged(segment)[source_id("a")]) == (60, True)
    send(segment, "a", data[90:120], 90)
    assert complete_to(judged(segment)[source_id("a")]) == (60, False)
    send(segment, "a", data[60:80], 60)
    segment.gap("a", 80, 90, "removed")
    assert complete_to(judged(segment)[source_id("a")]) == (80, False)
    send(segment, "a", data[70:95], 70)
    assert complete_to(judged(segment)[source_id("a")]) == (70, False)


def test_p4_a_source_whose_end_was_not_seen_is_complete_up_to_where_it_was_seen() -> None:
    segment, data = Segment(), lines("a", 0, 10)
    at = send(segment, "a", data)
    segment.gap("a", at, at, "removed", exact=False)
    assert complete_to(judged(segment)[source_id("a")]) == (at, True)
