"""A topic of Iggy as the pipeline reads it: our own face, and real servers where there are any."""

import itertools
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from logdrive.address import iggy_address
from logdrive.errors import ConfigError
from logdrive.host.transport import ClientTls
from logdrive.model.batch_walker import BatchRef
from logdrive.pipeline.decode.batches import place_batches, walk_batches
from logdrive.pipeline.read.offsets import Progress
from logdrive.pipeline.read.planner import Planner
from logdrive.pipeline.spark.options import parse_options
from logdrive.services.auth.passwords import hash_password
from logdrive.services.iggy.reader.stream import IggyStreamReader, iggy_stream
from logdrive.services.pravega.client.controller import Login
from tests.logdrive.pipeline import filling
from tests.logdrive.pipeline.segments import Segment, lines
from tests.logdrive.services.iggy.reader.memory_topic import as_sent
from tests.logdrive.services.iggy.reader.topics import create, purge, send, topic_at
from tests.support.iggy.face import IggyFace
from tests.support.iggy.servers import DURABLE, REVISIONS, ServerRevision, iggy_server

pytestmark = pytest.mark.process

_numbers = itertools.count(1)


class Service(Protocol):
    port: int


# R0 has no users, and can't purge a topic
since_r1 = pytest.mark.parametrize(
    "kind", ["ours", *(one for one in REVISIONS if one != "R0")], indirect=True
)


@pytest.fixture(scope="module", params=["ours", *REVISIONS])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(kind: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    directory = tmp_path_factory.mktemp("iggy")
    if kind == "ours":
        with IggyFace(directory) as face:
            yield face
    else:
        real: ServerRevision = "R0" if kind == "R0" else "R1"
        with iggy_server(real, directory, DURABLE) as running:
            yield running


@pytest.fixture
def topic(server: Service, request: pytest.FixtureRequest) -> IggyStreamReader:
    number = next(_numbers)
    reader = topic_at(server.port, f"topic-{number}")
    create(reader, 2, number)
    return reader


@pytest.fixture
def segment() -> Segment:
    """Small batches, then large ones, then a gap."""
    segment, at = Segment(), 0
    for turn in range(40):
        at = filling.send(segment, "a", lines("a", turn, 5), at)
    at = filling.send(segment, "b", lines("b", 0, 4000))
    filling.send(segment, "b", lines("b", 1, 4000), at)
    segment.gap("b", 0, 1, "removed")
    return segment


def refs(topic: IggyStreamReader, partition: int = 0) -> list[BatchRef]:
    state = topic.list_segments()[partition]
    return topic.read_batch_refs(state.segment, state.start, state.length)


def test_a_topic_that_is_missing_has_no_segments(server: Service) -> None:
    assert topic_at(server.port, "no-such-topic").list_segments() == []


def test_each_partition_is_a_segment(topic: IggyStreamReader, segment: Segment) -> None:
    found = topic.list_segments()
    assert [(one.segment, one.start, one.length) for one in found] == [
        (topic.name_of_segment(0), 0, 0),
        (topic.name_of_segment(1), 0, 0),
    ]
    assert [topic.segment_number(one.segment) for one in found] == [0, 1]
    messages = as_sent(segment)
    send(topic, messages, 1)
    assert [one.length for one in topic.list_segments()] == [0, len(messages)]
    assert topic.list_segments()[1].modified_ms > 1_700_000_000_000


def test_chunks_hold_the_batches_that_were_sent(topic: IggyStreamReader, segment: Segment) -> None:
    send(topic, as_sent(segment))
    found, data, following = refs(topic), b"", 0
    expected = list(walk_batches(segment.name, 0, bytes(segment.data)))
    assert [(one.header, one.payload) for one in found] == [
        (one.header, one.payload) for one in expected
    ]
    for offset, chunk in topic.read_chunks(topic.name_of_segment(0), 0, found[-1].next):
        assert offset == following
        for batch, start, end in place_batches(topic.name, offset, chunk, "records"):
            following = batch.next
            assert batch in found
            data += chunk[start - len(batch.payload) - 8 : end]
    assert (following, data) == (found[-1].next, bytes(segment.data))
    assert topic.count_known_headers(topic.name_of_segment(0), found) == len(found)


def test_a_plan_covers_all_partitions(topic: IggyStreamReader, segment: Segment) -> None:
    send(topic, as_sent(segment))
    send(topic, as_sent(segment)[:2], 1)
    planner, start = Planner(topic, range_bytes=2000), Progress({}, {})
    end = planner.plan_micro_batch(start, planner.segment_bounds(), None)
    assert {number: end.point(number).next for number in (0, 1)} == {
        0: refs(topic)[-1].next,
        1: 2,
    }
    ranges = planner.cut_ranges(start, end)
    assert {one.segment for one in ranges} == {topic.name_of_segment(n) for n in (0, 1)}


def test_a_torn_batch_is_told_from_those_behind_it(
    topic: IggyStreamReader, segment: Segment
) -> None:
    sent = as_sent(segment)
    send(topic, [*sent[:1], *sent])
    found = refs(topic)
    assert found[0].torn
    assert not any(one.torn for one in found[1:])
    assert topic.read_batch_refs(topic.name_of_segment(0), 1, found[-1].next) == found[1:]
    assert topic.read_batch_refs(topic.name_of_segment(0), 1, found[-1].next, most_raw=1) == [
        found[1]
    ]
    ((_, chunk),) = topic.read_chunks(topic.name_of_segment(0), 0, 1)
    assert [one.batch for one in place_batches(topic.name, 0, chunk, "records")] == found[:1]


@since_r1
def test_a_topic_that_was_purged_has_none_of_the_headers(
    topic: IggyStreamReader, segment: Segment
) -> None:
    send(topic, as_sent(segment))
    found = refs(topic)
    purge(topic)
    assert topic.count_known_headers(topic.name_of_segment(0), found) == 0
    state = topic.list_segments()[0]
    assert state.start == state.length, "offsets begin again, or go on"


def test_a_reader_travels_to_other_processes(topic: IggyStreamReader, segment: Segment) -> None:
    send(topic, as_sent(segment))
    assert pickle.loads(pickle.dumps(topic)).list_segments() == topic.list_segments()


@since_r1
def test_a_wrong_password_is_a_mistake_of_the_configuration(topic: IggyStreamReader) -> None:
    stranger = iggy_stream(topic.address, login=Login("iggy", "a wrong one"))
    with pytest.raises(ConfigError, match="iggy://user:password@") as refusal:
        stranger.list_segments()
    assert "a wrong one" not in str(refusal.value)
    with pytest.raises(ConfigError, match="iggy://user:password@"):
        list(stranger.read_chunks(topic.name_of_segment(0), 0, 1))


def test_the_options_of_the_data_source_make_the_same_reader() -> None:
    secret = "a secret: /?#"
    tls = ClientTls("/ca.pem", "/cert.pem", "/key.pem", "name")
    plain = iggy_address("iggy://host/logs/events")
    login = iggy_address("iggy://ann:a%20secret%3A%20%2F%3F%23@host/logs/a%20b")
    for made in (
        iggy_stream(plain),
        iggy_stream(plain, tls, Login("ann", secret)),
        iggy_stream(login, tls),
    ):
        options = made.connection_options()
        assert parse_options({"uri": made.uri, **options}).stream == made
        assert secret not in repr(made)
        assert secret not in made.uri
    assert iggy_stream(login).target.password == secret
    with pytest.raises(ConfigError, match="iggy://host:8090/logs/events") as refusal:
        parse_options({"uri": "iggy://ann:secret@host/logs"})
    assert "secret" not in str(refusal.value)


def test_a_store_with_users_asks_who_reads(tmp_path: Path, segment: Segment) -> None:
    known = Login("ann", "Schlüssel: ja")
    users, secret = tmp_path / "users.toml", tmp_path / "token.secret"
    hashed = hash_password(known.password, b"0123456789abcdef")
    users.write_text(
        f'[[user]]\nname = "ann"\npassword = "{hashed}"\nmay = {{ "*" = "READ_UPDATE" }}\n'
    )
    secret.write_text("0f" * 64)
    auth = f'[listen.auth]\nusers = "{users}"\ntoken_secret = "{secret}"'
    with IggyFace(tmp_path, more=auth) as face:
        address = topic_at(face.port, "of-users").address
        mine = iggy_stream(address, login=known)
        create(mine)
        send(mine, as_sent(segment))
        assert refs(mine)
        for other in (iggy_stream(address), iggy_stream(address, login=Login("ann", "wrong"))):
            with pytest.raises(ConfigError, match="iggy://user:password@"):
                other.list_segments()


def test_a_read_goes_on_after_the_service_was_restarted(segment: Segment, tmp_path: Path) -> None:
    with IggyFace(tmp_path) as face:
        topic = topic_at(face.port, "restarted")
        create(topic)
        for _ in range(40):  # more than one chunk
            send(topic, as_sent(segment))
        end = refs(topic)[-1].next
        name = topic.name_of_segment(0)
        whole = list(topic.read_chunks(name, 0, end))
        chunks = topic.read_chunks(name, 0, end)
        broken = [next(chunks)]
        face.kill()
        face.start()
        assert len(whole) > 1
        assert [*broken, *chunks] == whole
