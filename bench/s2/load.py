"""What is appended to S2's places alike, and read back: batches as large as S2 allows of records
as long as those of a log in JSON.
"""

import os
import time
from base64 import b64encode
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from bench.measure import Sample, percentile
from bench.processes import BenchmarkError
from bench.s2.http2_socket import Http2Socket
from bench.s2.places import BASIN, STREAM, S2Server
from logdrive.wire.s2.frames import S2FrameReader, encode_frame
from logdrive.wire.s2.protobuf import decode_append_ack, decode_read_batch, encode_append_input
from logdrive.wire.s2.records import AppendInput, Record

RECORDS: Final = 1000
"""Records of a batch, as many as there may be."""

RECORD_BYTES: Final = 365
BATCH_BYTES: Final = RECORDS * RECORD_BYTES
_POOL = 64  # different batches
_PATH = f"/v1/streams/{STREAM}/records"
_SESSION = [("s2-basin", BASIN), ("content-type", "s2s/proto")]


def _bodies(batch: int) -> list[bytes]:
    """Return the records of batch number *batch*; they repeat every `_POOL` batches."""
    return _KNOWN[batch % _POOL]


def _random_bodies() -> list[bytes]:
    text = b64encode(os.urandom(BATCH_BYTES * 3 // 4 + 3))
    return [text[at : at + RECORD_BYTES] for at in range(0, BATCH_BYTES, RECORD_BYTES)]


_KNOWN = [_random_bodies() for _ in range(_POOL)]


@dataclass(frozen=True, slots=True)
class Session:
    """What a session took: seconds, CPU seconds of the server and of this process, and, of
    appends, how long each waited.
    """

    bytes: int
    seconds: float
    server_cpu: float
    client_cpu: float
    waits: list[float]

    def samples(self) -> dict[str, Sample]:
        """The figures that every session has; bytes are those of the records' bodies."""
        cpu = {"server_cpu": self.server_cpu, "client_cpu": self.client_cpu}
        return {
            "throughput": Sample(self.bytes / self.seconds / 2**20, "MiB/s"),
            **{name: Sample(used / self.bytes * 1e9, "s/GB") for name, used in cpu.items()},
        }

    def waits_samples(self) -> dict[str, Sample]:
        """How long acknowledgements took."""
        return {
            "p50": Sample(percentile(self.waits, 0.5) * 1e3, "ms"),
            "p99": Sample(percentile(self.waits, 0.99) * 1e3, "ms"),
        }


def append(server: S2Server, batches: int, in_flight: int) -> Session:
    """Append so many batches in one session, with *in_flight* that are not acknowledged."""
    with Http2Socket(server.connect()) as client:
        client.open("POST", _PATH, _SESSION, end=False)
        messages = (
            encode_append_input(AppendInput(tuple(map(Record, bodies)))) for bodies in _KNOWN
        )
        pool = [client.frames_of(encode_frame(message)) for message in messages]
        acknowledged = _frames(client)
        waits: list[float] = []
        flying: deque[float] = deque()
        began, server_cpu, client_cpu = time.monotonic(), server.cpu_seconds(), time.process_time()
        for number in range(batches + in_flight):
            if number >= in_flight or number >= batches:
                if not flying:
                    break
                ack = decode_append_ack(next(acknowledged))
                waits.append(time.monotonic() - flying.popleft())
                if ack.end.seq_num != RECORDS * len(waits):
                    raise BenchmarkError(f"acknowledgement {len(waits)} is of {ack}")
            if number < batches:
                flying.append(time.monotonic())
                client.send(pool[number % _POOL])
        seconds = time.monotonic() - began
        used = server.cpu_seconds() - server_cpu, time.process_time() - client_cpu
        client.end()
        if next(acknowledged, None) is not None:
            raise BenchmarkError("an acknowledgement of nothing")
    return Session(batches * BATCH_BYTES, seconds, *used, waits)


def read(server: S2Server, batches: int) -> Session:
    """Read in one session what `append` has appended, and compare it afterwards."""
    with Http2Socket(server.connect()) as client:
        began, server_cpu, client_cpu = time.monotonic(), server.cpu_seconds(), time.process_time()
        path = f"{_PATH}?seq_num=0&count={RECORDS * batches}"
        client.open("GET", path, _SESSION, end=True)
        arrived = list(client.body())
        seconds = time.monotonic() - began
        used = server.cpu_seconds() - server_cpu, time.process_time() - client_cpu
    _compare(arrived, batches)
    return Session(batches * BATCH_BYTES, seconds, *used, [])


def _compare(arrived: list[bytes], batches: int) -> None:
    """Raise `BenchmarkError` unless these chunks are the records of so many batches."""
    reader, expected = S2FrameReader(terminals=True), 0
    for chunk in arrived:
        reader.receive(chunk)
        while (frame := reader.next_frame()) is not None:
            for record in decode_read_batch(frame.message).records:
                body = _bodies(expected // RECORDS)[expected % RECORDS]
                if record.seq_num != expected or record.body != body:
                    raise BenchmarkError(f"record {expected} is not what was appended")
                expected += 1
    if expected != RECORDS * batches:
        raise BenchmarkError(f"{expected} of {RECORDS * batches} records came back")


def _frames(client: Http2Socket) -> Iterator[bytes]:
    """Yield the messages of the session's answer. Raises `BenchmarkError` for an error."""
    reader = S2FrameReader(terminals=True)
    for data in client.body():
        reader.receive(data)
        while (frame := reader.next_frame()) is not None:
            if frame.error is not None:
                raise BenchmarkError(f"the session ended with {frame.error}")
            yield frame.message
