"""Starts of files that can't be looked for while starts are decided (rule P2)."""

from uuid import UUID

import pytest

from agent.config.files import InputTable
from agent.inputs.files.paths.globs import FileInputs
from agent.sources.checkpoint.entry import CheckpointEntry
from agent.sources.registry import SourceRegistry


@pytest.mark.parametrize(("here_before", "start"), [(True, 0), (False, 100)])
def test_a_file_found_after_starts_were_decided_does_not_wait_for_the_decision(
    here_before: bool, start: int
) -> None:
    book = SourceRegistry(
        "host", "agent", FileInputs([InputTable(paths=["/logs/*.log"], start="end")])
    )
    origin = UUID(int=1)
    entry = CheckpointEntry(
        origin=origin,
        stem=UUID(int=2),
        path="/logs/a.log",
        name="/logs/a.log",
        mount="/",
        device=1,
        inode=1,
        span=1,
        crc=1,
    )
    entry.start, entry.undecided = 100, True
    book.absent[origin] = entry
    book.decide_starts(here_before=here_before, now_ms=0)
    assert (entry.undecided, entry.start, entry.resend) == (False, start, here_before)
    assert book.changed
