"""Files that are no plain lines, from the agent to the tables: each byte is in exactly one row, or
left out by a rule, and the files can be rebuilt (R1, R2, R8, A3).
"""

import asyncio
import random
from pathlib import Path
from typing import Any, Literal

import pytest

from logdrive.pipeline.audit.audit import audit
from logdrive.pipeline.audit.engines.arrow import ArrowEngine
from logdrive.pipeline.bronze.rebuild import source_pieces
from logdrive.pipeline.bronze.tables import open_tables
from tests.agent.events.cutting.test_containers import cri, docker
from tests.agent.world import World
from tests.logdrive.pipeline.audit.test_deep import audited
from tests.logdrive.pipeline.filling import catch_up
from tests.logdrive.pipeline.segments import Segment
from tests.receiver.world import configuration, receiver, stored
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

TRACES = Path(__file__).parents[1] / "agent" / "events" / "cutting" / "traces"
JAVA = (TRACES / "java.txt").read_bytes()

CONTAINER = [
    ("stdout", "10:00 ERROR no", False),
    ("stdout", "java.lang.RuntimeException: ", True),
    ("stderr", "warn", True),
    ("stdout", "no\u20ac", False),
    ("stderr", "ing", False),
    ("stdout", "\tat shop.Cart.add(Cart.java:7)", False),
    ("stderr", "alone", False),
    ("stdout", "10:01 INFO well", False),
]
WRITERS = {"cri": cri, "docker": docker}


def container(form: Literal["cri", "docker"], times: int = 20) -> bytes:
    """Return the file of a container whose streams take turns."""
    write = WRITERS[form]
    return b"".join(write(name, text, partial=p) for name, text, p in CONTAINER * times)


FILES: dict[str, tuple[dict[str, Any], bytes]] = {
    "java": ({"multiline": {"preset": "java"}}, JAVA.replace(b"=====\n", b"") * 20),
    "bad bytes": (
        {"multiline": {"start": "^S"}},
        b"S \xff\r\nx\xfe\n\nS\nS \xe2\x82\xac\r\n" * 9 + b"S \xe2\x82",
    ),
    "utf-16": (
        {"encoding": "utf-16"},
        "\ufeffone\r\nz\u20acwei\n\n\U0001f600\n".encode("utf-16-be"),
    ),
    "odd utf-16": (
        {"encoding": "utf-16-le"},
        "one\n\u0a00\n".encode("utf-16-le") + b"\x00\xd8\n\0x",
    ),
    "latin-1": ({"encoding": "latin-1"}, b"one\n\xe4\xf6\r\nthree\n\n\x81\n" * 30),
    "shift_jis": (
        {"encoding": "shift_jis", "multiline": {"continue": "^ "}},
        "一つ\n 二つ\n三\n".encode("shift_jis") + b"\x81\xff\n" + b" \x83",
    ),
    "nul": ({"line_end": "\0"}, b"one\0two\nlines\0\0three\r\0last\r\n"),
    "delimiter": ({"line_end": "||"}, b"a|||b||||c"),
    "long": (
        {"longest_event_bytes": 50, "multiline": {"start": "^S"}},
        b"S 1\nS " + b"x" * 700_000 + b"\nS\n" + b"y" * 30 + b"\n" + b"z" * 90 + b"\nS 3\n",
    ),
    "lines of a container": ({"format": "cri"}, container("cri")),
    "events of a container": (
        {"format": "auto", "multiline": {"preset": "java"}},
        container("docker"),
    ),
    "torn container": (
        {"format": "cri", "multiline": {"start": "^S"}, "longest_event_bytes": 300},
        container("cri", 3) + b"no runtime\n" + cri("stderr", "S" * 400) + cri("stdout", "S")[:-9],
    ),
}


def written(disk: MemoryDisk, directory: Path) -> list[Segment]:
    """Write what the store on *disk* has into tables; return it."""
    segments = [
        Segment(f"logs/events/{number}.#epoch.0", data=bytearray(data))
        for number, data in enumerate(run(stored(disk)))
    ]
    catch_up(directory, *segments)
    return segments


async def shipped(
    keys: dict[str, Any], data: bytes, *, records: str, unpack: str, seed: int
) -> MemoryDisk:
    """Let an agent ship *data*, which is written bit by bit, to a receiver that dies in between."""
    pick, disk = random.Random(seed), MemoryDisk()
    world = World(seed, quiet_seconds=8, **keys)
    world.settings["output"] |= {"hosts": ["receiver:5044"], "records": records}
    at, config = 0, configuration(tls="off", unpack=unpack)
    world.start()
    for life in range(3):
        async with receiver(network=world.network, disk=disk, config=config) as real:
            for _ in range(4):
                end = len(data) if life == 2 else min(len(data), at + pick.randrange(len(data)))
                world.write(data[at:end])
                at = end
                await asyncio.sleep(pick.choice((0.3, 1, 7)))
                if pick.random() < 0.3:
                    await world.kill()
                    world.start()
            if life < 2:
                await real.crash()
                disk = disk.killed()
            else:
                await asyncio.sleep(40)
                await world.settle(120)
                await world.stop()
    return disk


SOME = ("bad bytes", "utf-16", "long", "events of a container")
"""Files that differ most in other forms of records."""


@pytest.mark.parametrize(
    ("name", "records", "unpack"),
    [
        *((name, "packed", "no") for name in FILES),
        *((name, "packed", "blocks") for name in SOME),
        *((name, "full", "no") for name in SOME),
        *((name, "block", "no") for name in SOME),
    ],
)
def test_each_byte_is_in_one_row_or_left_out_and_files_can_be_rebuilt__R2_A3(
    tmp_path: Path, name: str, records: str, unpack: str
) -> None:
    keys, data = FILES[name]
    disk = run(shipped(keys, data, records=records, unpack=unpack, seed=len(name)))
    segments = written(disk, tmp_path)

    verdict = audit(str(tmp_path), ArrowEngine)
    assert verdict.complete, verdict
    packs, _ = audited(*segments)
    assert (packs.faulty, packs.opened > 0) == (0, records != "block" and unpack == "no")

    # one life of one file: rows and what was left out are its bytes, each once
    (source,) = verdict.by_source
    pieces = list(source_pieces(str(tmp_path), source.source))
    dropped = [
        (one["start"], one["end"])
        for row in open_tables(str(tmp_path))[1].read_rows(["dropped"]).to_pylist()
        for one in row["dropped"] or []
    ]
    assert all(data[at : at + len(piece)] == piece for at, piece in pieces)
    intervals = sorted([*((at, at + len(piece)) for at, piece in pieces), *dropped])
    assert [0, *(end for _, end in intervals)] == [*(start for start, _ in intervals), len(data)]
    assert sum(end - start for start, end in dropped) == source.skipped_bytes
    assert bool(dropped) == ("longest_event_bytes" in keys)
