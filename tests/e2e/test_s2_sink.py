"""From files to an audited table over S2: agent, receiver with an `s2://` sink, a store that serves
S2, the pipeline reading from it; receiver and store are killed on the way.
"""

import asyncio
import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from bench.processes import free_port
from tests.conftest import unavailable
from tests.support.installation import Installation, Process, command
from tests.support.s2.lite import s2_lite, why_no_s2_lite

pytestmark = pytest.mark.process
BASIN, STREAM = "shipped-logs", "team/lines"


def logdrive(*arguments: str) -> bytes:
    done = subprocess.run(command(*arguments), capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


class Site(Installation):
    """An installation whose receiver appends by S2's protocol to a store in another process."""

    def __init__(self, root: Path, certificates: Path) -> None:
        super().__init__(root, certificates)
        self._s2_port = free_port()
        self.uri = f"s2://127.0.0.1:{self._s2_port}/{BASIN}/{STREAM}"
        receiver = self.root / "receiver.toml"
        receiver.write_text(
            receiver.read_text().replace(f"file://{self.store}#test/logs", self.uri)
        )
        (self.root / "store.toml").write_text(
            f'[store]\npath = "{self.store}"\n\n'
            f'[listen.pravega]\naddress = "127.0.0.1:{free_port()}"\n\n'
            f'[listen.s2]\naddress = "127.0.0.1:{self._s2_port}"\n'
        )

    def serve(self) -> Process:
        """Start the store and wait until it listens."""
        process = self._start("store", "")
        until = time.monotonic() + 20
        while time.monotonic() < until and process.running():
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self._s2_port)) == 0:
                    return process
            time.sleep(0.02)
        raise AssertionError(f"the store does not listen:\n{process.said()}")


@pytest.fixture
def site(tmp_path: Path, certificates: Path) -> Iterator[Site]:
    made = Site(tmp_path, certificates)
    yield made
    made.close()


def _append_lines(path: Path, first: int, count: int) -> None:
    with path.open("a") as file:
        file.writelines(f"line {number} of {path.name}\n" for number in range(first, first + count))


def _printed_lines(site: Site) -> list[bytes]:
    return logdrive("store", "cat", site.uri).splitlines(keepends=True)


def _wait_for_lines(site: Site, count: int) -> None:
    until = time.monotonic() + 60
    while len(_printed_lines(site)) < count:
        assert time.monotonic() < until, "the lines do not arrive"


@pytest.mark.spark
def test_every_line_is_in_the_table_once_though_receiver_and_store_are_killed(site: Site) -> None:
    files = [site.logs / f"app{number}.log" for number in range(3)]
    store, receiver = site.serve(), site.receiver()
    for file in files:
        _append_lines(file, 0, 400)
    agent = site.agent()
    _wait_for_lines(site, 1)

    receiver.kill()
    for file in files:
        _append_lines(file, 400, 400)
    receiver = site.receiver()
    _wait_for_lines(site, 1201)

    store.kill()
    for file in files:
        _append_lines(file, 800, 400)
    store = site.serve()
    assert agent.terminate(90) == 0, agent.said()
    assert receiver.terminate() == 0

    contents = {file.name: file.read_bytes() for file in files}
    expected = sorted(line for text in contents.values() for line in text.splitlines(True))
    assert sorted(_printed_lines(site)) == expected
    tables = str(site.root / "tables")
    ran = orjson.loads(
        logdrive("pipeline", "run", "--from", site.uri, "--to", tables, "--once", "--json")
    )
    assert (ran["events"], ran["waiting"]) == (3600, 0)
    audit = orjson.loads(logdrive("pipeline", "audit", tables, "--json"))
    assert audit["complete"]
    assert (audit["lost_bytes"], audit["duplicate_events"], audit["events"]) == (0, 0, 3600)
    for name, content in contents.items():
        assert logdrive("pipeline", "cat", tables, str(site.logs / name)) == content
    again = logdrive("pipeline", "run", "--from", site.uri, "--to", tables, "--once", "--json")
    assert orjson.loads(again)["batches"] == 0
    assert store.terminate() == 0


def test_lines_in_the_store_are_read_by_s2s_own_client_and_by_pravegas_protocol(
    tmp_path: Path, certificates: Path
) -> None:
    """The receiver keeps the store itself, and serves it to both."""
    s2_sdk = pytest.importorskip("s2_sdk")
    s2_port, pravega_port = free_port(), free_port()
    faces = (
        'unpack = "blocks"\n\n'  # S2's clients know nothing of packs
        f'[listen.pravega]\naddress = "127.0.0.1:{pravega_port}"\n\n'
        f'[listen.s2]\naddress = "127.0.0.1:{s2_port}"\n'
    )
    site = Installation(tmp_path, certificates, receiver_extra=faces, stream=f"{BASIN}/lines")
    try:
        receiver = site.receiver()
        file = site.logs / "app.log"
        _append_lines(file, 0, 300)
        assert site.agent().terminate(60) == 0

        async def bodies() -> list[bytes]:
            """Return the records of all segments, each of which is a stream of S2."""
            url, found = f"http://127.0.0.1:{s2_port}", []
            endpoints = s2_sdk.Endpoints(account=url, basin=url)
            async with s2_sdk.S2("any", endpoints=endpoints) as s2:
                basin = s2.basin(BASIN)
                for info in (await basin.list_streams()).items:
                    stream = basin.stream(info.name)
                    if not (await stream.check_tail()).seq_num:
                        continue
                    batch = await stream.read(start=s2_sdk.SeqNum(0))
                    found += [record.body for record in batch.records]
            return found

        header, block = map(orjson.loads, asyncio.run(bodies()))
        assert header["logdrive"]["kind"] == "data"
        assert block["message"] == file.read_text()
        pravega = f"pravega://127.0.0.1:{pravega_port}/{BASIN}/lines"
        assert logdrive("store", "cat", pravega) == file.read_bytes()
        printed = [
            logdrive("store", "cat", f"s2://127.0.0.1:{s2_port}/{BASIN}/lines/{number}")
            for number in range(4)
        ]
        assert b"".join(printed) == file.read_bytes()
        assert receiver.terminate() == 0
    finally:
        site.close()


@pytest.mark.spark
@pytest.mark.parametrize("service", ["ours", "s2-lite"])
def test_the_demo_over_s2_is_complete(tmp_path: Path, service: str) -> None:
    with contextlib.ExitStack() as stack:
        sink, kills = "s2", 3
        if service == "s2-lite":
            if reason := why_no_s2_lite():
                unavailable(reason)
            lite = stack.enter_context(s2_lite(tmp_path))
            sink, kills = f"s2://127.0.0.1:{lite.port}/demo-logs/events", 2
        work = str(tmp_path / "work")
        options = ("--lines", "6000", "--no-system-logs", "--work", work, "--sink", sink, "--json")
        found = orjson.loads(logdrive("demo", *options))
    assert (found["complete"], found["lost"], found["doubled"]) == (True, 0, 0)
    assert (found["table_lines"], found["kills"]) == (6000, kills)


@pytest.mark.parametrize(
    "sink", ["s2://logs.example.com:8080/demo-logs/events", "s2:///demo-logs/events", "s3"]
)
def test_the_demo_needs_a_service_on_this_machine(sink: str) -> None:
    done = subprocess.run(
        command("demo", "--sink", sink), capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 2
    assert b"--sink" in done.stderr
