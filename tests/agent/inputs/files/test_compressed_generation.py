"""A compressed file that is read again from its beginning (G5)."""

import pytest

from agent.config.files import InputTable
from agent.inputs.files.compressed.generation import CompressedGeneration
from agent.inputs.files.compressed.unpacked import STEP_BYTES, SeekingError, Surveyor
from agent.inputs.files.copies.judge import CopyVerdict, judge_unpacked
from agent.inputs.files.copies.known_life import KnownLife, LifeState
from agent.sources.identity import FirstLine
from agent.sources.place import FileLocation
from logdrive.model.numbers import number_of
from tests.agent.world import lines
from tests.simulation.hosts.compressing import SUFFIXES
from tests.support.memory.disk import MemoryDisk


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_what_was_read_far_ahead_is_not_unpacked_to_read_from_the_beginning__G5(
    suffix: str,
) -> None:
    """Nothing was acknowledged: what is known of the last position read is behind megabytes."""
    data, path = lines(0, 400_000), f"/logs/app.log.1{suffix}"
    assert len(data) > 3 * STEP_BYTES
    disk = MemoryDisk(["/logs"])
    disk.write(path, SUFFIXES[suffix](data))
    stat = disk.stat(path)
    surveyor = Surveyor(disk.open(path), suffix, b"\n", lambda survey, line: ())
    while not surveyor.advance():
        pass
    survey = surveyor.survey
    assert survey.first_line is not None
    generation = CompressedGeneration(
        FileLocation(path, path, "/", stat.device, stat.inode, stat.birth_ns),
        InputTable(paths=["/logs/*"]),
        stat=stat,
        survey=survey,
        first_line=survey.first_line,
    )

    for _ in range(2):
        generation.open_handle(disk)
        read = 0
        while read < len(data):
            try:
                chunk = generation.read_lines(0.0)
            except SeekingError:
                pytest.fail("it is unpacked to where it was read before")
            assert chunk is not None
            read += chunk.end - chunk.begin
        generation.close_handle()
        generation.resume_from(0)


@pytest.mark.parametrize("suffix", SUFFIXES)
@pytest.mark.parametrize("state", [LifeState.AWAITED, LifeState.ENDED])
def test_what_was_set_aside_behind_one_line_makes_a_compressed_file_no_other__P5_G5(
    suffix: str, state: LifeState
) -> None:
    text, path = b"the only line\n", f"/logs/app.log.1{suffix}"
    disk = MemoryDisk(["/logs"])
    disk.write(path, SUFFIXES[suffix](text + bytes(70_000)))
    first_line = FirstLine.find_in(text)
    assert first_line is not None
    number = number_of(len(text), text)
    life = KnownLife(
        state=state,
        source=None,
        path="/logs/app.log",
        name="/logs/app.log",
        first_line=first_line,
        prefix=b"",
        number=number,
        last=0,
    )
    surveyor = Surveyor(disk.open(path), suffix, b"\n", lambda survey, line: (len(text),))
    while not surveyor.advance():
        pass
    verdict = CopyVerdict.REST if state is LifeState.AWAITED else CopyVerdict.COPY
    assert judge_unpacked(path, surveyor.survey, [(life, None)]).verdict is verdict
