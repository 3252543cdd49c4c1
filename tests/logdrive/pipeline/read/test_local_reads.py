"""On its host a store's log files are read directly, and everything else over the network."""

import asyncio
import os
import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from logdrive.errors import LogdriveError
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.host.transport import ClientTls
from logdrive.model.numbers import ABSENT
from logdrive.model.units import MIB
from logdrive.net.tcp import SystemTransport
from logdrive.pipeline.read import stream as streams
from logdrive.pipeline.read.choose_reader import choose_reader
from logdrive.pipeline.read.connect import open_stream, relocate_stream
from logdrive.pipeline.read.stream import StreamClient
from logdrive.pipeline.spark.options import parse_options
from logdrive.services.pravega.client.blocking import BlockingClient, Target
from logdrive.services.pravega.client.client import SegmentClient
from logdrive.services.pravega.server.segments.listen import serve_segment_store
from logdrive.store.engine import Store
from tests.logdrive.pipeline.filling import send
from tests.logdrive.pipeline.segments import STREAM, Segment, lines
from tests.logdrive.pipeline.storing import served, store


@pytest.fixture
def segments() -> list[Segment]:
    """Two segments whose batches lie between one another's in the log, of all sizes."""
    segments = [Segment(name=f"{STREAM}/{number}.#epoch.0") for number in range(2)]
    for segment in segments:
        at = 0
        for turn in range(60):
            at = send(segment, "a", lines("a", turn, 900 if turn % 7 == 0 else 4), at)
    return segments


@pytest.fixture(autouse=True)
def _short_ranges_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(streams, "LOCAL_BYTES", 1)


@pytest.fixture
def face(tmp_path: Path, segments: list[Segment]) -> Iterator[StreamClient]:
    with served(tmp_path / "store", *segments) as client:
        yield client


class Fetches:
    """Counts the bytes that come over the network."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.size = 0
        fetch = BlockingClient.fetch

        def counted(client: BlockingClient, segment: str, start: int, end: int) -> bytes:
            data = fetch(client, segment, start, end)
            self.size += len(data)
            return data

        monkeypatch.setattr(BlockingClient, "fetch", counted)


@pytest.fixture
def fetches(monkeypatch: pytest.MonkeyPatch) -> Fetches:
    return Fetches(monkeypatch)


def whole(face: StreamClient, segment: Segment) -> bytes:
    chunks = list(face.read_chunks(segment.name, 0, len(segment.data)))
    at = 0
    for offset, data in chunks:
        assert offset == at
        assert type(data) is bytes
        at += len(data)
    return b"".join(data for _, data in chunks)


def test_log_files_on_this_host_are_read_directly(
    face: StreamClient, segments: list[Segment], fetches: Fetches
) -> None:
    for segment in segments:
        assert whole(face, segment) == segment.data
        middle = b"".join(data for _, data in face.read_chunks(segment.name, 7, 999))
        assert middle == segment.data[7:999]
    assert fetches.size == 0


def test_short_ranges_are_read_over_the_network(
    face: StreamClient,
    segments: list[Segment],
    fetches: Fetches,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What comes in a trickle is in the store's memory."""
    size = len(segments[0].data)
    monkeypatch.setattr(streams, "LOCAL_BYTES", size)
    assert b"".join(data for _, data in face.read_chunks(segments[0].name, 1, size))
    assert fetches.size == size - 1
    assert whole(face, segments[0]) == segments[0].data
    assert fetches.size == size - 1


def test_a_client_that_was_pickled_reads_them_too(
    face: StreamClient, segments: list[Segment], fetches: Fetches
) -> None:
    """So tasks do."""
    assert whole(pickle.loads(pickle.dumps(face)), segments[0]) == segments[0].data
    assert fetches.size == 0


def test_an_operator_can_have_everything_read_over_the_network(
    tmp_path: Path, segments: list[Segment], fetches: Fetches
) -> None:
    address = store(tmp_path / "store", *segments)
    with open_stream(address, local_reads=False) as face:
        assert isinstance(face, StreamClient)
        options = face.connection_options() | {"uri": face.uri}
        moved = relocate_stream(address, face)
        for client in (
            face,
            pickle.loads(pickle.dumps(face)),
            moved,
            parse_options(options).stream,
        ):
            assert isinstance(client, StreamClient)
            before = fetches.size
            assert whole(client, segments[0]) == segments[0].data
            assert fetches.size - before == len(segments[0].data)
    client = choose_reader("pravega://h/a/b", ClientTls("ca.pem"), local_reads=False)
    assert isinstance(client, StreamClient)
    assert not client.local_reads
    assert parse_options({"uri": "pravega://h/a/b"}).stream != client


def test_a_kernel_without_an_id_leaves_the_network(
    face: StreamClient,
    segments: list[Segment],
    fetches: Fetches,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "boot_id", lambda: "")
    assert whole(face, segments[0]) == segments[0].data
    assert fetches.size == len(segments[0].data)


def test_another_host_reads_over_the_network(
    face: StreamClient,
    segments: list[Segment],
    fetches: Fetches,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(streams, "boot_id", lambda: str(uuid4()))
    assert whole(face, segments[0]) == segments[0].data
    assert fetches.size == len(segments[0].data)


def test_a_service_that_is_no_store_of_ours_is_read_over_the_network(
    face: StreamClient,
    segments: list[Segment],
    fetches: Fetches,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def absent(client: SegmentClient, segment: str, attribute: object) -> int:
        return ABSENT

    async def unknown(*_: object) -> None:
        raise AssertionError("a Pravega would close the connection")

    monkeypatch.setattr(SegmentClient, "get_attribute", absent)
    monkeypatch.setattr(SegmentClient, "locate_appends", unknown)
    assert whole(face, segments[0]) == segments[0].data
    assert fetches.size == len(segments[0].data)
    refs = face.read_batch_refs(segments[0].name, 0, len(segments[0].data))
    assert refs[-1].next == len(segments[0].data)


def test_another_store_at_the_same_path_is_not_read(
    tmp_path: Path, segments: list[Segment], fetches: Fetches
) -> None:
    """As where the directory was put there from a backup, beside a store that still runs."""
    with served(tmp_path / "store", *segments) as face:
        shutil.copytree(tmp_path / "store", tmp_path / "copy")
        (tmp_path / "store").rename(tmp_path / "away")
        (tmp_path / "copy").rename(tmp_path / "store")
        assert whole(face, segments[0]) == segments[0].data
        assert fetches.size == len(segments[0].data)
        shutil.rmtree(tmp_path / "store")
        assert whole(face, segments[0]) == segments[0].data
        assert fetches.size == 2 * len(segments[0].data)
        (tmp_path / "away").rename(tmp_path / "store")


def test_files_that_may_not_be_read_are_read_over_the_network(
    face: StreamClient,
    segments: list[Segment],
    fetches: Fetches,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listed, pid = os.listdir, os.getpid()

    def refuse(path: str) -> list[str]:
        if os.getpid() == pid:
            raise PermissionError(13, "Permission denied", path)
        return listed(path)

    monkeypatch.setattr(os, "listdir", refuse)
    assert whole(face, segments[0]) == segments[0].data
    assert fetches.size == len(segments[0].data)


def test_a_changed_byte_is_told_by_the_store(
    tmp_path: Path, face: StreamClient, segments: list[Segment]
) -> None:
    segment = segments[0]
    last = face.read_batch_refs(segment.name, 0, len(segment.data))[-1]
    (log,) = (tmp_path / "store").glob("log-*")
    with open(log, "r+b") as file:
        file.seek(log.read_bytes().index(last.payload) + len(last.payload) + 20)
        file.write(b"\0")
    with pytest.raises(LogdriveError, match=r"log-0000000000000000.*not what was written"):
        whole(face, segment)
    chunks = face.read_chunks(segment.name, 0, last.offset)
    assert b"".join(data for _, data in chunks) == segment.data[: last.offset]


def test_what_was_just_written_past_the_page_cache_is_read(
    tmp_path: Path, fetches: Fetches
) -> None:
    """A reader at the tail reads the last block of the file again and again, while it grows."""
    name, data = f"{STREAM}/0.#epoch.0", os.urandom(2 * MIB)

    async def main() -> None:
        executor = ThreadExecutor("test-store")
        opened = await Store.open(
            str(tmp_path), disk=SystemDisk(), executor=executor, clock=SystemClock()
        )
        running = asyncio.create_task(opened.run(asyncio.Event()))
        transport, disk = SystemTransport(), SystemDisk()
        async with serve_segment_store(
            opened, "127.0.0.1", 0, None, transport=transport, disk=disk
        ) as (host, port):
            scope, stream = STREAM.split("/")
            face = StreamClient(Target(host, port), scope, stream)
            await opened.create(name)
            at, writer = 0, uuid4()
            for number, size in enumerate([1, 87, 4096, 5000, 100, 300_000, 3, 4008] * 5):
                piece = data[at : at + size]
                await opened.append(
                    name, piece, writer=writer, expected=None, number=number, events=1
                )
                chunks = await asyncio.to_thread(list, face.read_chunks(name, at, at + size))
                assert b"".join(chunk for _, chunk in chunks) == piece
                at += size
            chunks = await asyncio.to_thread(list, face.read_chunks(name, 0, at))
            assert b"".join(chunk for _, chunk in chunks) == data[:at]
        await opened.close()
        await running
        executor.close()

    asyncio.run(main())
    assert fetches.size == 0
