"""A file of 300 MB without a newline: every byte arrives, and nobody keeps it (R2, R3, R8)."""

import subprocess
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random

import orjson
import pytest

from logdrive.model.units import MIB
from tests.support.installation import STREAM, Installation, command
from tests.support.watched_memory import Memory

pytestmark = pytest.mark.process

FILE_BYTES = 300_000_000
PIECE = 1_000_000
PIECES = 20
"""Pieces that differ; together they are more than any window of a codec."""
MOST_MEMORY = 192 * MIB
"""A generous bound on the memory of agent, receiver and `store cat`, below the file's size."""

MakePiece = Callable[[int], bytes]


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path, certificates)
    yield installation
    installation.close()


def hard_piece(number: int) -> bytes:
    """Return bytes that do not shrink."""
    return Random(number % PIECES).randbytes(PIECE).replace(b"\n", b"\r")


def text_piece(number: int) -> bytes:
    """Return text of characters of four bytes that shrinks to a half."""
    return "".join(
        map(chr, (0x1F300 + byte for byte in Random(number % PIECES).randbytes(PIECE // 4)))
    ).encode()


@pytest.fixture
def path(system: Installation, make: MakePiece) -> Path:
    """Return the file; there are few pieces, over and over."""
    path = system.logs / "endless.log"
    pieces = [make(number) for number in range(PIECES)]
    with path.open("wb") as file:
        for number in range(FILE_BYTES // PIECE):
            file.write(pieces[number % PIECES])
    return path


@pytest.mark.parametrize("make", [hard_piece, text_piece])
def test_300_MB_without_a_newline_pass_through_bounded_memory__R2_R8(
    system: Installation, make: MakePiece, path: Path
) -> None:
    receiver = system.receiver()
    shipping = subprocess.Popen(ship(system, path))
    with Memory(shipping.pid) as agent, Memory(receiver.pid) as kept:
        assert shipping.wait(240) == 0
    assert receiver.terminate() == 0

    uri = f"file://{system.store}#{STREAM}"
    with subprocess.Popen(command("store", "cat", uri), stdout=subprocess.PIPE) as reading:
        assert reading.stdout is not None
        with Memory(reading.pid) as cat:
            compare(make, iter(partial(reading.stdout.read, PIECE), b""))
        assert reading.wait(60) == 0
    for name, memory in (("agent", agent), ("receiver", kept), ("cat", cat)):
        assert 0 < memory.peak < MOST_MEMORY, f"{name}: {memory.peak / MIB:.0f} MiB"


@pytest.mark.spark
@pytest.mark.parametrize("make", [text_piece])
def test_300_MB_without_a_newline_are_rebuilt_from_the_table__R2_R8_A3(
    system: Installation, make: MakePiece, path: Path
) -> None:
    from logdrive.pipeline.bronze.rebuild import source_pieces

    receiver = system.receiver()
    shipping = subprocess.Popen(ship(system, path))
    assert shipping.wait(240) == 0
    assert receiver.terminate() == 0

    uri, tables = f"file://{system.store}#{STREAM}", str(system.root / "tables")
    logdrive("pipeline", "run", "--from", uri, "--to", tables, "--once")
    audit = orjson.loads(logdrive("pipeline", "audit", tables, "--json"))
    assert (audit["complete"], audit["bytes"]) == (True, FILE_BYTES)
    (source,) = audit["by_source"]
    compare(make, (data for _, data in source_pieces(tables, source["source"])))


def ship(system: Installation, path: Path) -> list[str]:
    """Return the command that delivers *path*."""
    tls = [
        f"--{name}={system.tls / file}"
        for name, file in (("ca", "ca.pem"), ("cert", "client.pem"), ("key", "client.key"))
    ]
    return command("agent", "ship", str(path), "--to", f"localhost:{system.port}", *tls)


def compare(make: MakePiece, found: Iterator[bytes]) -> None:
    """Check that *found*, cut anywhere, is the file."""
    pieces, place = [make(number) for number in range(PIECES)], 0
    for whole in found:
        data, at = memoryview(whole), 0
        while at < len(data):
            number, begun = divmod(place, PIECE)
            part = data[at : at + PIECE - begun]
            wanted = memoryview(pieces[number % PIECES])[begun : begun + len(part)]
            assert part == wanted, f"other bytes after {place}"
            at, place = at + len(part), place + len(part)
    assert place == FILE_BYTES


def logdrive(*arguments: str) -> bytes:
    done = subprocess.run(command(*arguments), capture_output=True, timeout=280, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout
