"""Rule R5 for readers: from header to header, over the network face of a real store, within bounds,
and back where the store went back.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from logdrive.errors import ConfigError, StorageError, TransientError
from logdrive.pipeline.decode.batches import walk_batches
from logdrive.pipeline.read.connect import open_stream, relocate_stream
from logdrive.pipeline.read.offsets import Point, Progress, parse_progress
from logdrive.pipeline.read.planner import BatchRange, Planner
from logdrive.pipeline.read.stream import StreamClient, stream_client
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import STREAM, Segment, lines
from tests.logdrive.pipeline.storing import served, store

NOTHING = Progress({}, {})


@pytest.fixture
def segments() -> list[Segment]:
    """Three segments, the first with small batches, the second with few large ones, the third
    empty.
    """
    segments = [Segment(name=f"{STREAM}/{number}.#epoch.0") for number in range(3)]
    at = 0
    for turn in range(40):
        at = send(segments[0], "a", lines("a", turn, 5), at)
    send(segments[1], "b", lines("b", 0, 9000))
    segments[1].gap("b", 0, 1, "removed")
    return segments


@pytest.fixture
def face(tmp_path: Path, segments: list[Segment]) -> Iterator[StreamClient]:
    with served(tmp_path / "store", *segments) as client:
        yield client


def _offsets(segment: Segment) -> list[int]:
    return [hop.offset for hop in walk_batches(segment.name, 0, bytes(segment.data))] + [
        len(segment.data)
    ]


def test_a_stream_is_found_with_all_its_segments(
    face: StreamClient, segments: list[Segment]
) -> None:
    assert [(state.segment, state.length) for state in face.list_segments()] == [
        (one.name, len(one.data)) for one in segments
    ]


def test_hops_are_the_batches(face: StreamClient, segments: list[Segment]) -> None:
    for segment in segments[:2]:
        hops = face.read_batch_refs(segment.name, 0, len(segment.data))
        assert hops == list(walk_batches(segment.name, 0, bytes(segment.data)))
    assert len(face.read_batch_refs(segments[0].name, 0, len(segments[0].data), most=1)) == 1


def test_pieces_are_the_bytes(face: StreamClient, segments: list[Segment]) -> None:
    for segment in segments:
        assert b"".join(face.read_bytes(segment.name, 0, len(segment.data))) == segment.data
        assert (
            b"".join(face.read_bytes(segment.name, 7, len(segment.data) // 2))
            == segment.data[7 : len(segment.data) // 2]
        )


def test_ranges_tile_what_there_is_and_are_cut_where_batches_begin(
    face: StreamClient, segments: list[Segment]
) -> None:
    planner = Planner(face, range_bytes=2000)
    end = planner.plan_micro_batch(NOTHING, planner.segment_bounds(), None)
    ranges = planner.cut_ranges(NOTHING, end)
    for number, segment in enumerate(segments):
        mine = [one for one in ranges if one.segment == segment.name]
        assert [one.start for one in mine[1:]] == [one.end for one in mine[:-1]]
        assert {one.start for one in mine} | {one.end for one in mine} <= set(_offsets(segment))
        assert end.point(number).next == len(segment.data)
    assert len(ranges) > 5
    assert ranges == Planner(face, range_bytes=2000).cut_ranges(NOTHING, end), (
        "another process has to find the same ranges"
    )


def test_a_bound_on_bytes_is_shared_and_every_segment_goes_on(
    face: StreamClient, segments: list[Segment]
) -> None:
    planner = Planner(face, range_bytes=1 << 20)
    at, turns = NOTHING, 0
    while (following := planner.plan_micro_batch(at, planner.segment_bounds(), 4000)) != at:
        size = sum(
            one.end - one.start
            for one in planner.cut_ranges(at, following)
            if one.segment == segments[0].name
        )
        assert size <= 4000
        at, turns = following, turns + 1
    assert turns > 3
    assert [at.point(number).next for number in range(3)] == [
        len(segment.data) for segment in segments
    ]


def test_offsets_are_json_of_one_form() -> None:
    progress = Progress({10: Point(7, 3, 9), 2: Point()}, {2: 0})
    assert (
        str(progress.as_json())
        == "{'segments': {'2': [0, -1, 0], '10': [7, 3, 9]}, 'restarts': {'2': 0}}"
    )
    assert parse_progress(progress.as_json()) == progress
    for wrong in ({}, {"segments": {"a": [1, 2, 3]}}, {"segments": {"1": ["x"]}}, {"segments": 5}):
        with pytest.raises(ValueError, match="not the offsets"):
            parse_progress(wrong)


def test_r5_a_segment_that_lost_the_header_we_know_is_read_again(
    tmp_path: Path, segments: list[Segment]
) -> None:
    with served(tmp_path / "store", *segments) as face:
        planner = Planner(face, 1 << 20)
        before = planner.plan_micro_batch(NOTHING, planner.segment_bounds(), None)
    other = Segment(name=segments[0].name, store="00000000-0000-0000-0000-000000000008")
    at = 0
    for turn in range(50):
        at = send(other, "a", lines("a", turn, 5), at)
    with served(tmp_path / "restored", other, *segments[1:]) as face:
        planner = Planner(face, 1 << 20)
        after = planner.plan_micro_batch(before, planner.segment_bounds(), None)
        assert after.restarts == {0: 0}
        assert after.points[1] == before.points[1]
        assert planner.cut_ranges(before, after) == [BatchRange(other.name, 0, len(other.data))]
        assert planner.plan_micro_batch(after, planner.segment_bounds(), None).restarts == {}


def test_r5_a_shorter_segment_is_one_that_went_back(
    tmp_path: Path, segments: list[Segment]
) -> None:
    with served(tmp_path / "store", *segments) as face:
        planner = Planner(face, 1 << 20)
        before = planner.plan_micro_batch(NOTHING, planner.segment_bounds(), None)
    cut = Segment(
        name=segments[0].name, data=bytearray(segments[0].data[: _offsets(segments[0])[10]])
    )
    with served(tmp_path / "restored", cut, *segments[1:]) as face:
        planner = Planner(face, 1 << 20)
        after = planner.plan_micro_batch(before, planner.segment_bounds(), None)
        assert (after.restarts, after.points[0].next) == ({0: 0}, len(cut.data))


def test_bytes_removed_before_anyone_read_them_error_and_fresh_reader_begins_behind_them(
    face: StreamClient, segments: list[Segment]
) -> None:
    planner = Planner(face, 1 << 20)
    offsets = _offsets(segments[0])
    lengths = planner.segment_bounds() | {0: (offsets[5], offsets[-1])}
    fresh = planner.plan_micro_batch(NOTHING, lengths, None)
    assert fresh.restarts[0] == offsets[5]
    assert planner.cut_ranges(NOTHING, fresh)[0].start == offsets[5]
    with pytest.raises(StorageError, match="removed before they were read"):
        planner.plan_micro_batch(Progress({0: Point(offsets[2])}, {}), lengths, None)


def test_a_service_that_does_not_answer_is_asked_again_and_then_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("time.sleep", pauses.append)
    with pytest.raises(TransientError):
        stream_client("pravega://127.0.0.1:1/logs/app").list_segments()
    assert pauses == [0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0]


def test_addresses(tmp_path: Path, segments: list[Segment]) -> None:
    face = stream_client("pravega://[::1]:6001/logs/app")
    assert (face.target.host, face.target.port, face.name, face.uri) == (
        "::1",
        6001,
        "logs/app",
        "pravega://[::1]:6001/logs/app",
    )
    for wrong in (
        "pravega://h:1/logs",
        "http://h/logs/app",
        "pravega://h:x/logs/app",
        "pravega:///logs/app",
    ):
        with pytest.raises(ValueError, match=r"write|port"):
            stream_client(wrong)
    for wrong in ("file://relative#a/b", "nothing", f"file://{tmp_path}/none#logs/app"):
        with pytest.raises(ConfigError), open_stream(wrong):
            pass
    uri = store(tmp_path / "store", segments[0])
    with open_stream(uri) as reader, open_stream(uri) as same:
        assert same == reader == relocate_stream(uri, reader)
    with open_stream("pravega://127.0.0.1:6001/logs/app") as reader:
        assert (
            reader
            == stream_client("pravega://127.0.0.1:6001/logs/app")
            == relocate_stream("pravega://127.0.0.1:6001/logs/app", reader)
        )


@pytest.fixture
def packed() -> Segment:
    """A segment of packs that are stored in a small part of the bytes that they hold."""
    segment, at = Segment(), 0
    for _ in range(12):
        at = segment.packed("a", b"the same line again\n" * 5000, at)
    return segment


def test_a_bound_on_raw_bytes_counts_what_packs_hold(tmp_path: Path, packed: Segment) -> None:
    with served(tmp_path / "store", packed) as face:
        planner = Planner(face, range_bytes=1 << 30, range_raw_bytes=150_000)
        at, sizes, ranges = NOTHING, [], list[BatchRange]()
        while True:
            following = planner.plan_micro_batch(at, planner.segment_bounds(), None, 400_000)
            if following == at:
                break
            cut = planner.cut_ranges(at, following)
            sizes.append(sum(one.raw_bytes for one in cut))
            ranges += cut
            at = following
    assert sizes == [400_000] * 3
    assert [one.raw_bytes for one in ranges] == [200_000] * 6
    assert ranges[-1].end == len(packed.data) < 200_000


def test_ranges_of_another_process_have_the_same_raw_bytes(tmp_path: Path, packed: Segment) -> None:
    with served(tmp_path / "store", packed) as face:
        end = Planner(face, 1 << 30).plan_micro_batch(NOTHING, {0: (0, len(packed.data))}, None)
        other = Planner(face, range_bytes=1 << 30, range_raw_bytes=300_000)
        assert [one.raw_bytes for one in other.cut_ranges(NOTHING, end)] == [300_000] * 4
