"""`store ls` and `store cat` for topics of Iggy: the same lines and figures as of the bytes."""

import subprocess
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from logdrive.wire.iggy.messages.envelope import StoredMessage
from tests.logdrive.pipeline.filling import send as add_lines
from tests.logdrive.pipeline.segments import Segment, lines
from tests.logdrive.pipeline.storing import store
from tests.logdrive.services.iggy.reader.memory_topic import as_sent
from tests.logdrive.services.iggy.reader.topics import create, send, topic_at
from tests.logdrive.services.pack_batches import records_batch, text_batch
from tests.support.iggy.face import IggyFace
from tests.support.installation import command

pytestmark = pytest.mark.process


def logdrive(*arguments: str, code: int = 0) -> str:
    """Run it in a process of its own: it sets up logging for all of one."""
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IggyFace]:
    with IggyFace(tmp_path_factory.mktemp("iggy")) as running:
        yield running


@pytest.fixture
def segment() -> Segment:
    """Lines of four sources, packs among them, a gap, and a foreign event in pieces."""
    segment, at = Segment(), 0
    event = b'{"message":"%s"}' % (b"x" * 5000)
    segment.piece("f", event, 0, 2000)
    for turn in range(5):
        at = add_lines(segment, "a", lines("a", turn, 30), at)
    segment.piece("f", event, 2000, len(event))
    add_lines(segment, "b", lines("b", 0, 100))
    segment.data += text_batch("p", 0, b"of a pack\n\0\n")
    segment.data += records_batch("r", 0, 9, [b'{"message":"of another"}'])
    segment.gap("b", 0, 1, "removed")
    return segment


def test_lines_and_figures_are_those_of_the_bytes(
    server: IggyFace, segment: Segment, tmp_path: Path
) -> None:
    topic = topic_at(server.port, "printed")
    create(topic, 2)
    send(topic, as_sent(segment), 1)
    file_uri = store(tmp_path / "store", segment)
    uri = f"iggy://iggy:iggy@127.0.0.1:{server.port}/reader-tests/printed"
    assert logdrive("store", "cat", uri) == logdrive("store", "cat", file_uri)
    listed = orjson.loads(logdrive("store", "ls", uri, "--json"))
    assert listed["uri"] == topic.uri, "without the password"
    (empty, mine), (same,) = (
        listed["segments"],
        orjson.loads(logdrive("store", "ls", file_uri, "--json"))["segments"],
    )
    assert {key: mine[key] for key in ("batches", "events", "sources", "sealed", "start")} == {
        key: same[key] for key in ("batches", "events", "sources", "sealed", "start")
    }
    assert (mine["segment"], mine["length"]) == (f"{topic.name}/1", len(as_sent(segment)))
    assert (empty["segment"], empty["length"], empty["batches"]) == (f"{topic.name}/0", 0, 0)
    assert "records" in logdrive("store", "ls", uri).splitlines()[0]


def test_a_deep_look_at_the_store_opens_what_came_over_iggy__R8(
    segment: Segment, tmp_path: Path
) -> None:
    with IggyFace(tmp_path) as alone:
        topic = topic_at(alone.port, "looked-at")
        create(topic)
        send(topic, as_sent(segment))
        assert "2 packs, all of them whole" in logdrive("store", "verify", alone.store, "--deep")


def test_following_prints_what_is_sent_to_any_partition(server: IggyFace, segment: Segment) -> None:
    topic = topic_at(server.port, "followed")
    create(topic, 2)
    send(topic, as_sent(segment))
    with subprocess.Popen(
        command("store", "cat", topic.uri, "--follow"), stdout=subprocess.PIPE
    ) as reading:
        try:
            assert reading.stdout is not None
            for _ in range(254):  # all lines that are there
                assert reading.stdout.readline()
            send(topic, [StoredMessage(b"one more")], 1)
            assert reading.stdout.readline() == b"one more\n"
        finally:
            reading.terminate()


def test_what_iggy_has_nothing_for_says_so(server: IggyFace) -> None:
    uri = topic_at(server.port, "no-such-topic").uri
    for arguments in (("readers", uri, "pipeline"), ("dead-letters", "ls", uri)):
        assert "does not work over Iggy" in logdrive("store", *arguments, code=2)
    assert "verify reads the store's files" in logdrive("store", "verify", uri, code=2)


def test_a_topic_that_is_not_there_is_said(server: IggyFace) -> None:
    for uri in (
        topic_at(server.port, "no-such-topic").uri,
        f"iggy://iggy:iggy@127.0.0.1:{server.port}/no-such-stream/events",
    ):
        for arguments in (("ls", uri, "--json"), ("cat", uri), ("cat", uri, "--follow")):
            assert "there is no topic" in logdrive("store", *arguments, code=1)


def test_a_wrong_password_is_not_shown(server: IggyFace) -> None:
    uri = f"iggy://iggy:no-secret-of-mine@127.0.0.1:{server.port}/reader-tests/printed"
    said = logdrive("store", "ls", uri, code=2)
    assert "iggy://user:password@" in said
    assert "no-secret-of-mine" not in said
    assert "pipeline" not in said, "there is none"
    assert "[login]" not in said, "nor a configuration"
