"""A bucket in a store on this machine that speaks S3's protocol: moto's."""

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from subprocess import DEVNULL
from typing import Final
from uuid import uuid4

from pyarrow.fs import S3FileSystem

from bench.processes import free_port
from logdrive.pipeline.publish.bucket import Bucket, open_bucket

_START_SECONDS: Final = 60.0  # limit on what moto takes to listen

KEYS: Final = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test"}
"""What the store is asked with; it takes any."""


@dataclass(frozen=True, slots=True)
class Lake:
    """A bucket in the store at the URL *endpoint*."""

    endpoint: str
    name: str

    @property
    def address(self) -> str:
        return f"s3://{self.name}/logs"

    @property
    def bucket(self) -> Bucket:
        return open_bucket(self.address, endpoint=self.endpoint, region=None)

    @property
    def options(self) -> dict[str, str]:
        """What delta-rs needs to read it."""
        place = {"AWS_ENDPOINT_URL": self.endpoint, "AWS_REGION": "us-east-1"}
        return KEYS | place | {"AWS_ALLOW_HTTP": "true"}


@contextmanager
def serve_objects() -> Iterator[str]:
    """Yield the URL of a store inside the context.

    In a process of its own: some calls of delta-rs keep the interpreter while they wait for it.
    """
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with subprocess.Popen(command, stdout=DEVNULL, stderr=DEVNULL) as server:
        try:
            deadline = time.monotonic() + _START_SECONDS
            while not _listens(port):
                assert server.poll() is None, "moto ended"
                assert time.monotonic() < deadline, "moto does not listen"
                time.sleep(0.05)
            yield f"http://127.0.0.1:{port}"
        finally:
            server.kill()


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def make_lake(endpoint: str) -> Lake:
    """Return a new bucket; `KEYS` must be in the environment."""
    lake = Lake(endpoint, f"lake-{uuid4()}")
    maker = S3FileSystem(
        endpoint_override=endpoint.removeprefix("http://"),
        scheme="http",
        region="us-east-1",
        allow_bucket_creation=True,
    )
    maker.create_dir(lake.name)
    return lake
