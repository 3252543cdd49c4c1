"""A receiver that serves Pravega's controller for its own store: its stream is seen there, and can
be scaled under it (rule S3).
"""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import orjson
import pytest
from google.protobuf.message import Message

from bench.processes import free_port
from logdrive.wire.pravega.controller import controller_pb2 as pb
from logdrive.wire.pravega.controller.methods import METHODS, SERVICE
from tests.support.installation import Installation, command

pytestmark = pytest.mark.process
STREAM = pb.StreamInfo(scope="test", stream="logs")


class System:
    """A receiver with both of its store's faces."""

    def __init__(self, root: Path, certificates: Path) -> None:
        self._controller = free_port()
        faces = (
            f'[listen.pravega]\naddress = "127.0.0.1:{free_port()}"\n\n[listen.controller]\n'
            f'address = "127.0.0.1:{self._controller}"\n'
        )
        self.installation = Installation(root, certificates, receiver_extra=faces)

    def ask(self, method: str, request: Message) -> Any:
        types = METHODS[method]
        with grpc.insecure_channel(f"127.0.0.1:{self._controller}") as channel:
            call = channel.unary_unary(
                f"/{SERVICE}/{method}",
                request_serializer=types.request.SerializeToString,
                response_deserializer=types.answer.FromString,
            )
            return call(request, timeout=20)

    def ship(self, file: Path) -> dict[str, Any]:
        tls = [
            f"--{name}={self.installation.tls / pem}"
            for name, pem in (("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"))
        ]
        arguments = command(
            "agent",
            "ship",
            str(file),
            "--to",
            f"localhost:{self.installation.port}",
            *tls,
            "--json",
        )
        environment = {**os.environ, "HOME": str(self.installation.root)}
        done = subprocess.run(
            arguments, capture_output=True, timeout=120, check=True, env=environment
        )
        result: dict[str, Any] = orjson.loads(done.stdout)
        return result


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[System]:
    system = System(tmp_path, certificates)
    yield system
    system.installation.close()


def test_a_receivers_stream_is_scaled_and_its_sources_go_on_where_they_were__S3(
    system: System, tmp_path: Path
) -> None:
    receiver = system.installation.receiver()
    file = tmp_path / "app.log"
    file.write_text("".join(f"line {number}\n" for number in range(100)))
    assert system.ship(file)["bytes"] == file.stat().st_size
    now = system.ask("getCurrentSegments", STREAM).segmentRanges
    assert [(segment.minKey, segment.maxKey) for segment in now] == [
        (n / 4, (n + 1) / 4) for n in range(4)
    ]
    ranges = [
        pb.ScaleRequest.KeyRangeEntry(start=0.0, end=0.5),
        pb.ScaleRequest.KeyRangeEntry(start=0.5, end=1.0),
    ]
    sealed = [segment.segmentId.segmentId for segment in now]
    scaled = system.ask(
        "scale", pb.ScaleRequest(streamInfo=STREAM, sealedSegments=sealed, newKeyRanges=ranges)
    )
    assert scaled.status == pb.ScaleResponse.STARTED
    before = file.stat().st_size
    with file.open("a") as more:
        more.write("one line more\n")
    assert system.ship(file)["bytes"] == file.stat().st_size - before
    assert system.ship(file)["bytes"] == 0
    assert receiver.terminate() == 0
