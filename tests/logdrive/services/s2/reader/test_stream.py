"""An S2 stream as the pipeline reads it: our own face, and a real s2-lite where there is one."""

import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

import pytest

from logdrive.errors import ConfigError, StorageError
from logdrive.host.transport import ClientTls
from logdrive.model.batch_walker import BatchRef
from logdrive.pipeline.decode.batches import place_batches, walk_batches
from logdrive.pipeline.read.offsets import Point, Progress
from logdrive.pipeline.read.planner import Planner
from logdrive.pipeline.spark.options import parse_options
from logdrive.services.auth.config import AuthConfig
from logdrive.services.auth.passwords import hash_password
from logdrive.services.pravega.client.controller import Login
from logdrive.services.s2.reader.stream import S2StreamReader, s2_stream
from logdrive.wire.s2.records import Record, fence_record, trim_record
from tests.conftest import unavailable
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import Segment, lines
from tests.logdrive.services.s2.reader.streams import (
    BASIN,
    SEGMENT,
    append,
    append_segment,
    records_of,
    stream_at,
)
from tests.support.s2.face import S2Face
from tests.support.s2.lite import s2_lite, why_no_s2_lite


class Service(Protocol):
    port: int


@pytest.fixture(scope="module", params=["ours", "s2-lite"])
def service(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Service]:
    directory: Path = tmp_path_factory.mktemp("s2")
    if request.param == "ours":
        with S2Face(directory) as face:
            yield face
    elif reason := why_no_s2_lite():
        unavailable(reason)
    else:
        with s2_lite(directory) as lite:
            yield lite


@pytest.fixture
def stream(service: Service, request: pytest.FixtureRequest) -> S2StreamReader:
    return stream_at(service.port, request.node.originalname)


@pytest.fixture
def segment() -> Segment:
    """Small batches, then large ones, then a gap."""
    segment, at = Segment(name=SEGMENT), 0
    for turn in range(40):
        at = send(segment, "a", lines("a", turn, 5), at)
    at = send(segment, "b", lines("b", 0, 4000))
    send(segment, "b", lines("b", 1, 4000), at)
    segment.gap("b", 0, 1, "removed")
    return segment


def refs(stream: S2StreamReader) -> list[BatchRef]:
    (state,) = stream.list_segments()
    return stream.read_batch_refs(state.segment, state.start, state.length)


def test_a_stream_that_is_missing_has_no_segments(stream: S2StreamReader) -> None:
    assert stream.list_segments() == []


def test_a_stream_that_is_several_is_told_by_their_names(stream: S2StreamReader) -> None:
    target, name = stream.target, stream.address.stream
    for number in (10, 2, 0):
        part = f"{name}/{number}"
        append(S2StreamReader(target, replace(stream.address, stream=part)))
    with pytest.raises(ConfigError, match=f"as {name}/0 to {name}/10; name one of these"):
        stream.list_segments()


def test_an_empty_stream_has_a_segment_without_records(stream: S2StreamReader) -> None:
    append(stream)
    (state,) = stream.list_segments()
    assert (state.segment, state.start, state.length) == (stream.name, 0, 0)


def test_offsets_count_records_and_sizes_bytes(stream: S2StreamReader, segment: Segment) -> None:
    append_segment(stream, segment)
    expected = list(walk_batches(segment.name, 0, bytes(segment.data)))
    found, at = refs(stream), 0
    for ref, same, records in zip(found, expected, records_of(segment), strict=True):
        assert (ref.offset, ref.body, ref.next) == (at, at + 1, at + len(records))
        assert (ref.header, ref.crc, ref.payload) == (same.header, same.crc, same.payload)
        assert ref.size == same.next - same.offset
        at = ref.next
    (state,) = stream.list_segments()
    assert state.length == at
    limit = found[0].size + found[1].size
    assert stream.read_batch_refs(state.segment, 0, at, most=limit) == found[:2]
    assert stream.read_batch_refs(state.segment, 0, at, most=1) == found[:1]
    assert stream.read_batch_refs(state.segment, 0, at, most_raw=1) == found[:1]
    assert stream.read_batch_refs(state.segment, 0, found[1].next - 1) == found[:1]


def test_chunks_hold_the_same_batches_with_the_same_records(
    stream: S2StreamReader, segment: Segment
) -> None:
    append_segment(stream, segment)
    expected, data = refs(stream), b""
    following = 0
    for offset, chunk in stream.read_chunks(stream.name, 0, expected[-1].next):
        assert offset == following
        for batch, start, end in place_batches(stream.name, offset, chunk, "records"):
            following = batch.next
            assert batch in expected
            data += chunk[start - len(batch.payload) - 8 : end]
    assert (following, data) == (expected[-1].next, bytes(segment.data))
    middle = expected[10:12]
    ((offset, chunk),) = stream.read_chunks(stream.name, middle[0].offset, middle[1].next)
    assert [one.batch for one in place_batches(stream.name, offset, chunk, "records")] == middle


def test_a_range_that_ends_inside_a_batch_is_refused(
    stream: S2StreamReader, segment: Segment
) -> None:
    append_segment(stream, segment)
    with pytest.raises(StorageError, match="no batch ends at"):
        list(stream.read_chunks(stream.name, 0, refs(stream)[-2].next - 1))


def test_ranges_are_limited_by_bytes_not_by_records(
    stream: S2StreamReader, segment: Segment
) -> None:
    append_segment(stream, segment)
    planner = Planner(stream, range_bytes=2000)
    start, found = Progress({}, {}), refs(stream)
    bounds = planner.segment_bounds()
    end = planner.plan_micro_batch(start, bounds, None)
    assert end.point(0) == Point(found[-1].next, found[-1].offset, found[-1].crc)
    ranges = planner.cut_ranges(start, end)
    assert [one.start for one in ranges[1:]] == [one.end for one in ranges[:-1]]
    for one in ranges[:-1]:
        sizes = [ref.size for ref in found if one.start <= ref.offset < one.end]
        assert sum(sizes) >= 2000 > sum(sizes[:-1])
    some = planner.plan_micro_batch(start, bounds, 4000)
    assert 0 < sum(ref.size for ref in found if ref.offset < some.point(0).next) <= 4000


def test_records_of_others_are_headless_and_commands_are_none(
    stream: S2StreamReader, segment: Segment
) -> None:
    (batch, *_) = records_of(segment)
    own = [Record(body) for body in batch]
    foreign = Record(b"hello", ((b"a", b"b"),))
    append(stream, [fence_record("t")], own, [foreign, Record(b'{"logdrive":1}')])
    append(stream, [trim_record(0)], own)
    found = refs(stream)
    assert [(ref.header is not None, ref.command) for ref in found] == [
        (False, True),
        (True, False),
        (False, False),
        (False, False),
        (False, True),
        (True, False),
    ]
    assert [ref.next for ref in found[:-1]] == [ref.offset for ref in found[1:]]
    ((offset, chunk),) = stream.read_chunks(stream.name, 0, found[-1].next)
    assert [one.batch for one in place_batches(stream.name, offset, chunk, "records")] == found


def test_a_header_is_known_again_by_place_and_content(
    stream: S2StreamReader, segment: Segment
) -> None:
    append_segment(stream, segment)
    found = refs(stream)
    assert stream.count_known_headers(stream.name, found) == len(found)
    other = Point(found[5].next, found[5].offset, found[5].crc ^ 1)
    assert stream.count_known_headers(stream.name, [*found[:5], other]) == 5
    beyond = Point(found[-1].next + 9, found[-1].next + 1, found[-1].crc)
    assert stream.count_known_headers(stream.name, [*found, beyond]) == len(found)


def test_the_options_of_the_data_source_make_the_same_reader(stream: S2StreamReader) -> None:
    token = "a secret"
    tls = ClientTls("/ca.pem", "/cert.pem", "/key.pem", "name")
    for made in (
        s2_stream(stream.uri, tls, environ={"S2_ACCESS_TOKEN": token}),
        s2_stream(stream.uri, token=token, environ={}),
        s2_stream(stream.uri, login=Login("fleet", "a password"), environ={}),
        s2_stream("s2:///basin-name/events", token=token, environ={}),
    ):
        options = parse_options({"uri": made.uri, **made.connection_options()})
        assert options.stream == made
        assert token not in repr(made)
    with pytest.raises(ConfigError, match="s2://host:8080/my-basin/events"):
        parse_options({"uri": "s2://host/x/y"})


def test_a_store_with_users_asks_who_reads(tmp_path: Path, segment: Segment) -> None:
    known, other = Login("ann", "Schlüssel: ja"), Login("ann", "wrong")
    hashed = hash_password(known.password, b"0123456789abcdef")
    users, secret = tmp_path / "users.toml", tmp_path / "token.secret"
    users.write_text(
        f'[[user]]\nname = "ann"\npassword = "{hashed}"\nmay = {{ "{BASIN}/*" = "READ_UPDATE" }}\n'
    )
    secret.write_text("0f" * 64)
    auth = AuthConfig(users=str(users), token_secret=str(secret))
    with S2Face(tmp_path / "store", auth) as face:
        uri = stream_at(face.port).uri
        mine = s2_stream(uri, login=known, environ={})
        append_segment(mine, segment)
        end = refs(mine)[-1].next
        for stream in (stream_at(face.port), s2_stream(uri, login=other, environ={})):
            with pytest.raises(ConfigError, match="S2_ACCESS_TOKEN"):
                stream.list_segments()
            with pytest.raises(ConfigError, match="S2_ACCESS_TOKEN"):
                list(stream.read_chunks(stream.name, 0, end))


def test_a_reader_travels_to_other_processes(stream: S2StreamReader, segment: Segment) -> None:
    append_segment(stream, segment)
    same = pickle.loads(pickle.dumps(stream))
    assert same.list_segments() == stream.list_segments()


def test_what_was_trimmed_is_not_taken_for_what_is_left(tmp_path: Path, segment: Segment) -> None:
    with S2Face(tmp_path) as face:
        stream = stream_at(face.port)
        append_segment(stream, segment)
        before = refs(stream)
        append(stream, [trim_record(before[3].offset + 1)])
        (state,) = stream.list_segments()
        assert state.start == before[3].offset + 1
        with pytest.raises(StorageError, match="were removed before they were read"):
            stream.read_batch_refs(state.segment, 0, state.length)
        with pytest.raises(StorageError, match="were removed before they were read"):
            list(stream.read_chunks(state.segment, 0, before[0].next))
        after = refs(stream)
        left = before[3].next - state.start  # records of a batch without its header
        assert left
        assert [ref.header for ref in after[:left]] == [None] * left
        assert after[left : len(before) - 4 + left] == before[4:]
        assert after[-1].command


def test_a_read_goes_on_after_the_service_was_restarted(tmp_path: Path, segment: Segment) -> None:
    with S2Face(tmp_path) as face:
        stream = stream_at(face.port)
        for _ in range(30):  # more than one chunk
            append_segment(stream, segment)
        end = refs(stream)[-1].next
        whole = list(stream.read_chunks(stream.name, 0, end))
        chunks = stream.read_chunks(stream.name, 0, end)
        broken = [next(chunks)]
        face.restart()
        assert len(whole) > 1
        assert [*broken, *chunks] == whole
