"""A file written past the page cache reads as what was appended, on any file system."""

import contextlib
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest

from logdrive.host.direct_file import DIRECT_BLOCK, DirectFile
from logdrive.host.disk import File, SystemDisk

disk = SystemDisk()


@contextlib.contextmanager
def opened(path: Path) -> Iterator[File]:
    """Return the file at *path*, created if missing, written past the page cache."""
    with contextlib.closing(
        disk.open(str(path), write=True, create=not path.exists(), direct=True)
    ) as file:
        yield file


def seen(path: Path, size: int) -> bytes:
    """Return what a reader sees through the page cache; only zeros may follow *size* bytes."""
    content = path.read_bytes()
    assert content[size:] == bytes(len(content) - size)
    assert len(content) - size < DIRECT_BLOCK
    return content[:size]


@pytest.fixture(params=["disk", "memory"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """Return a path on the disk, and one on a tmpfs, which may not know O_DIRECT."""
    if request.param == "disk":
        yield tmp_path / "log"
        return
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("there is no /dev/shm")
    path = Path(f"/dev/shm/logdrive-{os.getpid()}-{id(request)}")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)


@pytest.mark.parametrize("seed", range(4))
def test_appends_cuts_and_reopenings_in_any_order_make_the_same_file(path: Path, seed: int) -> None:
    random, expected = Random(seed), b""
    for _ in range(6):
        with opened(path) as file:
            for _ in range(12):
                if random.random() < 0.2:
                    size = random.randint(0, len(expected))
                    file.truncate(size)
                    expected = expected[:size]
                parts = [
                    random.randbytes(random.choice((0, 1, 88, 4095, 4096, 4097, 300_000)))
                    for _ in range(random.randint(0, 20))
                ]
                file.append(parts)
                file.datasync()
                expected += b"".join(parts)
                assert seen(path, len(expected)) == expected
                assert file.stat().size == len(expected)
                at = random.randint(0, len(expected))
                assert file.pread(5000, at) == expected[at : at + 5000]
        assert path.read_bytes() == expected


def test_parts_larger_than_the_buffer_arrive_whole(path: Path) -> None:
    parts = [os.urandom(size) for size in (5, 4 << 20, (9 << 20) + 1, 3)]
    with opened(path) as file:
        file.append(parts)
        file.append([b"end"])
    assert path.read_bytes() == b"".join(parts) + b"end"


@pytest.mark.parametrize("seed", range(4))
def test_what_is_staged_while_the_stage_before_is_written_follows_it(path: Path, seed: int) -> None:
    random, expected = Random(seed), b""
    with opened(path) as file, ThreadPoolExecutor(1) as thread:
        for _ in range(10):
            stage, written = file.stage(400_000), None
            for _ in range(random.randint(1, 6)):
                for _ in range(random.randint(0, 5)):
                    parts = [
                        random.randbytes(random.choice((0, 1, 88, 4095, 4096, 30_000)))
                        for _ in range(2)
                    ]
                    stage.add(parts)
                    expected += b"".join(parts)
                if written is not None:
                    written.result()
                written, stage = thread.submit(stage.append), stage.next_stage(400_000)
            stage.add([b"given up"])
            if written is not None:
                written.result()
            assert seen(path, len(expected)) == expected
            if random.random() < 0.3:
                expected = expected[: random.randint(0, len(expected))]
                file.truncate(len(expected))
    assert path.read_bytes() == expected


def test_a_reader_that_has_the_last_block_in_its_cache_sees_what_is_appended_to_it(
    path: Path,
) -> None:
    with opened(path) as file, contextlib.closing(disk.open(str(path))) as reader:
        for size in range(0, 3 * DIRECT_BLOCK, 100):
            assert reader.pread(4 * DIRECT_BLOCK, 0).rstrip(b"\0") == b"x" * size
            file.append([b"x" * 100])


def test_the_disk_is_written_past_the_cache_where_it_can(tmp_path: Path) -> None:
    descriptor = os.open(tmp_path / "probe", os.O_RDWR | os.O_CREAT)
    try:
        try:
            can = os.open(tmp_path / "probe", os.O_RDONLY | os.O_DIRECT)
        except OSError:
            pytest.skip("this file system does not take O_DIRECT")
        os.close(can)
    finally:
        os.close(descriptor)
    with opened(tmp_path / "log") as file:
        assert isinstance(file, DirectFile)
