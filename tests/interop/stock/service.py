"""`logdrive store run` with its controller, as a process, and the stock client's scenarios against
it.
"""

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message import Message

from bench.processes import free_port
from logdrive.services.auth.passwords import hash_password
from logdrive.wire.pravega.controller import controller_pb2 as pb
from logdrive.wire.pravega.controller.methods import METHODS, SERVICE
from tests.interop.stock.scenarios import SCOPE, STREAM
from tests.support.installation import Process

_SECONDS = 150  # the client now and then waits for 30 s on its own, with everything answered


class Service:
    """A store's process.

    Clients are sent for segments to *advertise*, if that is given; with *tls*, a directory, to
    localhost.

    *users* are passwords and grants by name; who comes is asked where there are any.
    """

    def __init__(
        self,
        root: Path,
        advertise: int | None = None,
        tls: Path | None = None,
        users: Mapping[str, tuple[str, str]] | None = None,
    ) -> None:
        self.segments, self.controller = free_port(), free_port()
        self._root, self._tls = root, tls
        sent = f'advertise = "127.0.0.1:{advertise}"\n' if advertise is not None else ""
        if tls is not None:
            sent = f'advertise = "localhost:{self.segments}"\n'
        (root / "store.toml").write_text(
            f'[store]\npath = "{root}/store"\n\n'
            f'[listen.pravega]\naddress = "127.0.0.1:{self.segments}"\n{_tls("pravega", tls)}\n'
            f'[listen.controller]\naddress = "127.0.0.1:{self.controller}"\n'
            f"{sent}{_tls('controller', tls)}\n{_auth(root, users or {})}"
        )
        self._process: Process | None = None

    @property
    def uri(self) -> str:
        return (
            f"tcp://127.0.0.1:{self.controller}"
            if self._tls is None
            else f"tls://localhost:{self.controller}"
        )

    def start(self) -> None:
        """Start it and wait until it listens."""
        arguments = ["store", "run", "--config", str(self._root / "store.toml")]
        self._process = process = Process("store", arguments, self._root / "store.out")
        until = time.monotonic() + 20
        while time.monotonic() < until and process.running():
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.controller)) == 0:
                    return
            time.sleep(0.02)
        raise AssertionError(f"the store does not listen:\n{process.said()}")

    def kill(self) -> None:
        """End it as SIGKILL does."""
        if self._process is not None:
            self._process.kill()

    def scenario(
        self, name: str, *arguments: object, login: tuple[str, str] | None = None
    ) -> "subprocess.Popen[str]":
        """Begin a scenario, of a client that comes in with *login*, user and password."""
        command = [
            sys.executable,
            "-m",
            "tests.interop.stock.scenarios",
            name,
            self.uri,
            *map(str, arguments),
        ]
        environment = {
            **os.environ,
            "pravega_client_tls_cert_path": str(
                self._tls / "ca.pem" if self._tls is not None else ""
            ),
        }
        if login is not None:
            names = ("method", "username", "password")
            environment |= {
                f"pravega_client_auth_{name}": value
                for name, value in zip(names, ("Basic", *login), strict=True)
            }
        return subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        )

    def told(self, name: str, *arguments: object, login: tuple[str, str] | None = None) -> Any:
        """Return what a scenario prints."""
        return ended(self.scenario(name, *arguments, login=login))

    def call(self, method: str, request: Message) -> Any:
        """Ask the controller."""
        types = METHODS[method]
        with grpc.insecure_channel(f"127.0.0.1:{self.controller}") as channel:
            call = channel.unary_unary(
                f"/{SERVICE}/{method}",
                request_serializer=types.request.SerializeToString,
                response_deserializer=types.answer.FromString,
            )
            return call(request, timeout=20)

    def scale(self, split: bool) -> None:
        """Split the stream's first segment in two, or join all."""
        info = pb.StreamInfo(scope=SCOPE, stream=STREAM)
        now = self.call("getCurrentSegments", info).segmentRanges
        low, high = now[0].minKey, now[0].maxKey
        bounds = [(low, (low + high) / 2), ((low + high) / 2, high)] if split else [(0.0, 1.0)]
        sealed = [segment.segmentId.segmentId for segment in (now[:1] if split else now)]
        ranges = [pb.ScaleRequest.KeyRangeEntry(start=begin, end=end) for begin, end in bounds]
        answer = self.call(
            "scale", pb.ScaleRequest(streamInfo=info, sealedSegments=sealed, newKeyRanges=ranges)
        )
        assert answer.status == pb.ScaleResponse.STARTED


def ended(process: "subprocess.Popen[str]") -> Any:
    """Return what a scenario printed."""
    try:
        output, errors = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        output, errors = process.communicate()
        raise AssertionError(
            f"the client still runs after {_SECONDS} s:\n{output}\n{errors[-4000:]}"
        ) from None
    assert process.returncode == 0, errors[-6000:]
    return json.loads(output.splitlines()[-1])


def failed(process: "subprocess.Popen[str]") -> str:
    """Return the error that a scenario ended with."""
    try:
        output, errors = process.communicate(timeout=_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise AssertionError(f"the client still runs after {_SECONDS} s") from None
    assert process.returncode > 0, f"ended with {process.returncode}: {output}\n{errors[-4000:]}"
    return errors.strip().splitlines()[-1]


@contextlib.contextmanager
def serving(
    root: Path,
    advertise: int | None = None,
    tls: Path | None = None,
    users: Mapping[str, tuple[str, str]] | None = None,
) -> Iterator[Service]:
    service = Service(root, advertise, tls, users)
    try:
        service.start()
        yield service
    finally:
        service.kill()


def _auth(root: Path, users: Mapping[str, tuple[str, str]]) -> str:
    """Return the table by which a store asks who comes, the files that it names being made."""
    if not users:
        return ""
    (root / "token.secret").write_text("s" * 64)
    entries = [
        (
            f'[[user]]\nname = "{name}"\n'
            f'password = "{hash_password(password, os.urandom(16))}"\n'
            f"may = {{ {grants} }}\n"
        )
        for name, (password, grants) in users.items()
    ]
    (root / "users.toml").write_text("\n".join(entries))
    return (
        f'[listen.auth]\nusers = "{root}/users.toml"\ntoken_secret = "{root}/token.secret"\n'
        "token_seconds = 5.0\n"
    )


def _tls(table: str, directory: Path | None) -> str:
    """Return the table by which a face shows a certificate and asks for none: the client has none
    to show.
    """
    if directory is None:
        return ""
    return (
        f'\n[listen.{table}.tls]\ncert = "{directory}/server.pem"\nkey = '
        f'"{directory}/server.key"\nclients = "any"\n'
    )


def by_key(events: Sequence[str]) -> dict[str, list[int]]:
    """Return the numbers of each key, in the order read."""
    numbers: dict[str, list[int]] = {}
    for event in events:
        key, _, number = event.partition(" ")
        numbers.setdefault(key, []).append(int(number))
    return numbers


@contextlib.asynccontextmanager
async def cutting(port: int, target: int, cut_after: Callable[[], int]) -> AsyncIterator[None]:
    """Pass connections at *port* on to *target*; cut each after the bytes that *cut_after* returns.

    Both directions count.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        left = cut_after()

        async def copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            nonlocal left
            while left > 0 and (data := await source.read(min(left, 65536))):
                left -= len(data)
                sink.write(data)
                await sink.drain()

        with contextlib.suppress(OSError):
            onward_reader, onward = await asyncio.open_connection("127.0.0.1", target)
            both = [
                asyncio.create_task(copy(reader, onward)),
                asyncio.create_task(copy(onward_reader, writer)),
            ]
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)
            onward.transport.abort()
        writer.transport.abort()

    server = await asyncio.start_server(serve, "127.0.0.1", port)
    try:
        yield
    finally:
        server.close()
