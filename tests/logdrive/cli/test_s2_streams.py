"""`store ls` and `store cat` for streams of S2: the same lines and figures as of the bytes."""

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from bench.processes import free_port
from logdrive.model.framing import split_events
from logdrive.wire.s2.records import Record, fence_record
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import Segment, lines
from tests.logdrive.pipeline.storing import store
from tests.logdrive.services.pack_batches import records_batch, text_batch
from tests.logdrive.services.s2.reader.streams import SEGMENT, append, append_segment, stream_at
from tests.support.installation import Process, command
from tests.support.s2.face import S2Face


def logdrive(*arguments: str, code: int = 0) -> str:
    """Run it in a process of its own: it sets up logging for all of one."""
    done = subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture
def face(tmp_path: Path) -> Iterator[S2Face]:
    with S2Face(tmp_path / "s2") as running:
        yield running


@pytest.fixture
def segment() -> Segment:
    """Lines of four sources, packs among them, a gap, and a foreign event in pieces."""
    segment, at = Segment(), 0
    event = b'{"message":"%s"}' % (b"x" * 5000)
    segment.piece("f", event, 0, 2000)
    for turn in range(5):
        at = send(segment, "a", lines("a", turn, 30), at)
    segment.piece("f", event, 2000, len(event))
    send(segment, "b", lines("b", 0, 100))
    segment.data += text_batch("p", 0, b"of a pack\n\0\n")
    segment.data += records_batch("r", 0, 9, [b'{"message":"of another"}'])
    segment.gap("b", 0, 1, "removed")
    return segment


def test_lines_and_figures_are_those_of_the_bytes(
    face: S2Face, segment: Segment, tmp_path: Path
) -> None:
    stream = stream_at(face.port)
    append_segment(stream, segment)
    append(stream, [fence_record("t")])  # a command is no line
    file_uri = store(tmp_path / "store", segment)
    assert logdrive("store", "cat", stream.uri) == logdrive("store", "cat", file_uri)
    (mine,), (same,) = (
        orjson.loads(logdrive("store", "ls", uri, "--json"))["segments"]
        for uri in (stream.uri, file_uri)
    )
    assert {key: mine[key] for key in ("batches", "events", "sources", "sealed", "start")} == {
        key: same[key] for key in ("batches", "events", "sources", "sealed", "start")
    }
    assert (mine["segment"], mine["length"]) == (SEGMENT, stream.list_segments()[0].length)
    assert "records" in logdrive("store", "ls", stream.uri).splitlines()[0]


def test_a_deep_look_at_the_store_opens_what_came_over_s2__R8(
    face: S2Face, segment: Segment, tmp_path: Path
) -> None:
    stream = stream_at(face.port)
    append_segment(stream, segment)
    # as a sink appends it: the header record has headers of S2's own
    header, pack = split_events(text_batch("q", 0, b"line\n"))
    append(stream, [Record(header, ((b"logdrive-batch", b"1"),)), Record(pack)])
    found = logdrive("store", "verify", str(tmp_path / "s2"), "--deep")
    assert "3 packs, all of them whole" in found


def test_following_prints_what_is_appended(face: S2Face, segment: Segment) -> None:
    stream = stream_at(face.port)
    append_segment(stream, segment)
    with subprocess.Popen(
        command("store", "cat", stream.uri, "--follow"), stdout=subprocess.PIPE
    ) as reading:
        try:
            assert reading.stdout is not None
            for _ in range(254):  # all lines that are there
                assert reading.stdout.readline()
            append(stream, [Record(b"one more")])
            assert reading.stdout.readline() == b"one more\n"
        finally:
            reading.terminate()


def test_following_holds_an_unfinished_line_until_its_end_comes_or_it_is_stopped(
    face: S2Face,
) -> None:
    stream = stream_at(face.port)

    def send_text(source: str, text: bytes) -> None:
        append_segment(stream, Segment(data=bytearray(text_batch(source, 0, text))))

    send_text("long", b"begun ")
    with subprocess.Popen(
        command("store", "cat", stream.uri, "--follow"), stdout=subprocess.PIPE
    ) as reading:
        try:
            assert reading.stdout is not None
            send_text("short", b"between\n")
            assert reading.stdout.readline() == b"between\n"
            send_text("long", b"and ended\nbegun again")
            assert reading.stdout.readline() == b"begun and ended\n"
        finally:
            reading.terminate()
        assert reading.stdout.read() == b"begun again"


def test_what_s2_has_nothing_for_says_so(face: S2Face) -> None:
    uri = stream_at(face.port).uri
    for arguments in (("readers", uri, "pipeline"), ("dead-letters", "ls", uri)):
        assert "does not work over S2" in logdrive("store", *arguments, code=2)
    assert "verify reads the store's files" in logdrive("store", "verify", uri, code=2)


def test_a_stream_that_is_missing_is_an_error(face: S2Face, tmp_path: Path) -> None:
    over_s2 = stream_at(face.port, "absent").uri
    port = free_port()
    (config := tmp_path / "store.toml").write_text(
        f'[store]\npath = "{tmp_path}/store"\n[listen.pravega]\naddress = "127.0.0.1:{port}"\n'
    )
    running = Process("store", ["store", "run", "--config", str(config)], tmp_path / "store.log")
    try:
        until = time.monotonic() + 30
        while "listening" not in running.said():
            assert time.monotonic() < until, running.said()
            assert running.running(), running.said()
            time.sleep(0.05)
        for uri in (over_s2, f"pravega://127.0.0.1:{port}/logs/absent"):
            for arguments in (("ls",), ("ls", "--json"), ("cat",)):
                assert "there is no stream" in logdrive("store", *arguments, uri, code=1)
    finally:
        running.kill()


def test_a_stream_with_several_segments_is_told_by_their_names(face: S2Face) -> None:
    for number in range(3):
        append(stream_at(face.port, f"events/{number}"))
    said = logdrive("store", "ls", stream_at(face.port, "events").uri, code=1)
    assert "events/0 to events/2" in said
