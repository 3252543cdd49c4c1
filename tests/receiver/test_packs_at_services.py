"""Packs at each kind of sink: stored as they came, and read back to the byte (rule R8)."""

import asyncio
import socket
from collections.abc import Iterator
from random import Random
from uuid import UUID

import pytest

from bench.processes import free_port
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.host.host import Host
from logdrive.model.framing import split_events
from logdrive.model.limits import RECORD_BYTES
from logdrive.model.numbers import number_of, position_of
from logdrive.model.record_walker import walk_records
from logdrive.net.tcp import SystemTransport
from logdrive.packs.pack import PACK_HEAD, PackCodec, PackForm, make_pack
from logdrive.pipeline.read.connect import open_stream
from logdrive.services.reader import ServiceReader
from logdrive.wire.lumberjack.frames import RunFrame
from receiver import app
from receiver.config import ListenConfig, ReceiverConfig, SinkConfig
from tests.receiver.peers import NativePeer
from tests.support.store_process import StoreProcess

NOISE = Random(8).randbytes(RECORD_BYTES - PACK_HEAD)
TEXTS = (
    (b'{"logdrive":{"v":1,\n' * 20_000, PackCodec.DEFLATE),
    (b"\x00\n\xff" * 1000, PackCodec.ZSTD),
    (b"\n", PackCodec.STORED),
    # the longest there may be, as it came
    (NOISE, PackCodec.STORED),
)
PACKS = [make_pack(PackForm.TEXT, text, codec) for text, codec in TEXTS]


@pytest.fixture(scope="module")
def services(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Addresses of a stream by scheme: those of one store, and one in the receiver's process."""
    iggy = free_port()
    more = f'[listen.iggy]\naddress = "127.0.0.1:{iggy}"'
    with StoreProcess(
        tmp_path_factory.mktemp("services"), "listen.s2", _listens, more=more
    ) as store:
        yield {
            "file": f"file://{tmp_path_factory.mktemp('own')}#logs/events",
            "pravega": f"pravega://127.0.0.1:{store.pravega_port}/logs/events",
            "s2": f"s2://{store.address}/logs-basin/events",
            "iggy": f"iggy://iggy:iggy@127.0.0.1:{iggy}/logs/shipped",
        }


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


@pytest.mark.parametrize("service", ["file", "pravega", "s2", "iggy"])
def test_r8_a_sink_stores_packs_as_they_came(services: dict[str, str], service: str) -> None:
    uri = services[service]
    asyncio.run(_ship(uri))
    with open_stream(uri) as reader:
        found = _stored(reader)
    assert [form for form, _ in found] == ["text"] * len(PACKS)
    assert [records for _, records in found] == [[pack] for pack in PACKS]


async def _ship(uri: str) -> None:
    """Send `PACKS` to a receiver with the sink *uri*, one a window, until all are acknowledged."""
    executor, stop = ThreadExecutor("receiver"), asyncio.Event()
    host = Host(
        clock=SystemClock(),
        disk=SystemDisk(),
        transport=SystemTransport(),
        executor=executor,
        random=Random(3),
    )
    config = ReceiverConfig(
        listen=ListenConfig(address="127.0.0.1:0", tls="off"), sink=SinkConfig(uri=uri, segments=1)
    )
    started: asyncio.Future[app.Started] = asyncio.get_running_loop().create_future()
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        group.create_task(app.run(config, host=host, stop=stop, started=started.set_result))
        where = (await started).address
        peer = NativePeer(await SystemTransport().connect("127.0.0.1", where[1], None))
        await peer.register(0, UUID(int=1))
        previous = 0
        for (text, _), pack in zip(TEXTS, PACKS, strict=True):
            number = number_of(position_of(previous) + len(text), None)
            events = text.count(b"\n") + (not text.endswith(b"\n"))
            run = RunFrame(0, 0, previous, number, 1, 0, events, 1)
            await peer.acknowledged(await peer.send_window((run, pack)))
            previous = number
        await peer.stream.close()
        stop.set()
    executor.close()


def _stored(reader: ServiceReader) -> list[tuple[object, list[bytes]]]:
    """Return form and records of all batches."""
    found: list[tuple[object, list[bytes]]] = []
    for state in reader.list_segments():
        data = b"".join(
            chunk for _, chunk in reader.read_chunks(state.segment, state.start, state.length)
        )
        refs = reader.read_batch_refs(state.segment, state.start, state.length)
        if reader.offset_unit == "bytes":
            bodies = [data[ref.body - state.start : ref.next - state.start] for ref in refs]
        else:
            placed = walk_records(state.segment, state.start, data)
            bodies = [data[batch.start : batch.end] for batch in placed]
        for ref, body in zip(refs, bodies, strict=True):
            assert ref.header is not None
            found.append((ref.header.form, list(split_events(body))))
    return found
