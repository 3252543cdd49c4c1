"""`logdrive store verify` and `store readers`: exit codes, lines, objects."""

import asyncio
import re
import subprocess
import time
from pathlib import Path

import orjson
import pytest
from click.testing import CliRunner

from logdrive.cli.main import cli
from logdrive.host.clock import SystemClock
from logdrive.host.disk import SystemDisk
from logdrive.host.executor import ThreadExecutor
from logdrive.model.limits import PACK_BYTES
from logdrive.store.engine import Store
from tests.logdrive.pipeline.segments import Segment
from tests.logdrive.pipeline.storing import store
from tests.logdrive.services.pack_batches import (
    lying_batch,
    records_batch,
    source_id,
    text_batch,
)
from tests.logdrive.store.harness import SEGMENT, submit
from tests.support.installation import Process, command
from tests.support.pki import Pki


def _logdrive(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run it in a process of its own: it sets up logging for all of one."""
    return subprocess.run(
        command(*arguments), capture_output=True, text=True, timeout=60, check=False
    )


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Return a store with two batches."""

    async def fill() -> None:
        executor = ThreadExecutor("sync")
        store = await Store.open(
            str(tmp_path), disk=SystemDisk(), executor=executor, clock=SystemClock()
        )
        running = asyncio.create_task(store.run(asyncio.Event()))
        await store.create(SEGMENT)
        await submit(store, b"first", 1)
        await submit(store, b"second", 2)
        await store.close()
        await running
        executor.close()

    asyncio.run(fill())
    return tmp_path


def test_a_whole_store_exits_with_0(directory: Path) -> None:
    for place in (str(directory), f"file://{directory}#logs/app"):
        result = _logdrive("store", "verify", place)
        assert result.returncode == 0
        assert "every byte is as it was written (1 files" in result.stdout
        found = orjson.loads(_logdrive("store", "verify", place, "--json").stdout)
        assert (found["intact"], found["damages"], found["entries"], found["segments"]) == (
            True,
            [],
            3,
            1,
        )


def test_damage_exits_with_1_and_is_named_by_file_and_offset(directory: Path) -> None:
    log = next(directory.glob("log-*"))
    data = bytearray(log.read_bytes())
    data[-1] ^= 1
    log.write_bytes(data)
    result = _logdrive("store", "verify", str(directory))
    assert result.returncode == 1
    offset = len(data) - len(b"second") - 88
    assert f"{log} is damaged at offset {offset}: " in result.stdout
    assert "1 damaged places" in result.stdout
    found = orjson.loads(_logdrive("store", "verify", str(directory), "--json").stdout)
    assert [(damage["file"], damage["offset"]) for damage in found["damages"]] == [
        (str(log), offset)
    ]


def test_a_stream_over_the_network_and_what_is_no_store_are_refused(tmp_path: Path) -> None:
    assert _logdrive("store", "verify", "pravega://localhost:6000/logs/app").returncode == 2
    assert _logdrive("store", "verify", str(tmp_path)).returncode == 1


def test_a_readers_position_is_shown_set_to_the_end_and_forgotten(directory: Path) -> None:
    uri = f"file://{directory}#logs/app"

    def told(*options: str) -> list[tuple[int | None, int]]:
        result = _logdrive("store", "readers", uri, "pipeline", "--json", *options)
        assert result.returncode == 0, result.stderr
        return [(row["position"], row["behind"]) for row in orjson.loads(result.stdout)["segments"]]

    assert told() == [(None, 11)]
    assert told("--at-end") == told() == [(11, 0)]
    assert told("--forget") == [(None, 11)]
    assert _logdrive("store", "readers", uri, "pipeline", "--at-end", "--forget").returncode == 2


def test_a_face_is_known_by_the_name_in_its_certificate_whatever_address_is_dialled(
    directory: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    pki = Pki.make(tmp_path_factory.mktemp("pki"))
    pki.add("store", ["store.example.com"], server=True)
    config = pki.directory / "store.toml"
    tls = (
        f'cert = "{pki.path("store.pem")}"\nkey = "{pki.path("store.key")}"\nca = '
        f'"{pki.path("ca.pem")}"\n'
    )
    config.write_text(
        f'[store]\npath = "{directory}"\n[listen.pravega]\naddress = "127.0.0.1:0"\n'
        f"[listen.pravega.tls]\n{tls}"
    )
    process = Process("store", ["store", "run", "--config", str(config)], pki.directory / "log")
    try:
        uri = f"pravega://{_listening(process)}/logs/app"
        options = [
            "--ca",
            pki.path("ca.pem"),
            "--cert",
            pki.path("client.pem"),
            "--key",
            pki.path("client.key"),
        ]
        refused = _logdrive("store", "readers", uri, "pipeline", *options)
        assert refused.returncode == 1
        assert "hostname mismatch" in refused.stderr
        found = _logdrive(
            "store",
            "readers",
            uri,
            "pipeline",
            *options,
            "--server-name",
            "store.example.com",
            "--json",
        )
        assert found.returncode == 0, found.stderr
        assert [row["behind"] for row in orjson.loads(found.stdout)["segments"]] == [11]
    finally:
        process.kill()


def _listening(process: Process) -> str:
    """Return the address, once there is one."""
    for _ in range(300):
        if found := re.search(r"listening +address=(\S+)", process.said()):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(process.said())


@pytest.mark.parametrize(
    "arguments",
    [
        ("store", "ls", "pravega://x:1/a/b"),
        ("pipeline", "run", "--from", "pravega://x:1/a/b", "--to", "/x"),
    ],
)
def test_a_servers_name_means_nothing_without_tls(arguments: tuple[str, ...]) -> None:
    done = CliRunner().invoke(cli, [*arguments, "--server-name", "store.example.com"])
    assert "--server-name needs --ca" in done.output


def test_the_help_of_ls_says_what_a_running_receiver_must_serve_for_it() -> None:
    told = CliRunner().invoke(cli, ["store", "ls", "--help"]).output
    assert "[listen.pravega]" in told
    assert "read over the network" in " ".join(told.split())


def test_the_lines_of_a_pack_that_lies_are_left_out_and_it_is_named__R8(tmp_path: Path) -> None:
    segment = Segment()
    segment.data += text_batch("a", 0, b"first\n")
    lying_at = len(segment.data)
    segment.data += lying_batch("bad", 0, 50) + text_batch("a", 6, b"second\n")
    done = _logdrive("store", "cat", store(tmp_path, segment))
    assert (done.returncode, done.stdout) == (1, "first\nsecond\n")
    said = f"at {lying_at}: a pack of source {source_id('bad')}, bytes 0 to 50, can't be opened"
    assert said in done.stderr


def test_no_line_has_another_files_text_in_it__R8(tmp_path: Path) -> None:
    segment = Segment()
    parts = [("long", b"LLL"), ("short", b"1\n2"), ("long", b"MMM"), ("short", b"\n3\n4")]
    for source, text in [*parts, ("last", b"5"), ("long", b"NNN\nP")]:
        segment.data += text_batch(source, 0, text)
    done = _logdrive("store", "cat", store(tmp_path, segment))
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "1\n2\n3\nLLLMMMNNN\n" + "4" + "5" + "P", "the rest, as it began"


def test_of_a_line_that_is_too_long_to_hold_the_source_is_named__R8(tmp_path: Path) -> None:
    segment, part = Segment(), b"L" * PACK_BYTES
    for turn in range(10):
        segment.data += text_batch("long", turn * PACK_BYTES, part)
        segment.data += text_batch("short", 2 * turn, b"%d\n" % turn)
    done = _logdrive("store", "cat", store(tmp_path, segment))
    assert done.returncode == 0
    # with what their objects take, four parts are more than 16 MiB
    held = part.decode() * 4
    assert done.stdout == f"0\n1\n2\n{held}3\n4\n5\n6\n{held}7\n8\n9\n{part.decode() * 2}"
    (said,) = done.stderr.splitlines()
    assert said.startswith(f"logdrive: a line of source {source_id('long')} is printed in parts")


def test_a_deep_look_opens_every_pack_and_names_what_lies__R8(tmp_path: Path) -> None:
    segment = Segment()
    segment.data += text_batch("a", 0, b"first\n") + records_batch("b", 0, 7, [b"{}"])
    lying_at = len(segment.data)
    segment.data += lying_batch("bad", 0, 50)
    store(tmp_path, segment)
    assert _logdrive("store", "verify", str(tmp_path)).returncode == 0, "every byte is as it came"
    done = _logdrive("store", "verify", str(tmp_path), "--deep")
    assert done.returncode == 1
    said = f"{segment.name} at {lying_at}: a pack of source {source_id('bad')}, bytes 0 to 50"
    assert said in done.stdout
    assert "every byte is as it was written" in done.stdout
    assert "3 packs, 1 of them can't be opened" in done.stdout
    assert "the store is not damaged" in done.stdout
    found = orjson.loads(_logdrive("store", "verify", str(tmp_path), "--deep", "--json").stdout)
    assert (found["intact"], found["packs"], found["faulty_packs"]) == (True, 3, 1)
    (fault,) = found["pack_faults"]
    assert (fault["segment"], fault["offset"]) == (segment.name, lying_at)
    assert (fault["source"], fault["previous"], fault["position"]) == (source_id("bad"), 0, 50)
    assert fault["reason"]
