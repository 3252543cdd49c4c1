"""What the checkpoint keeps of a source (D5, G5, G6)."""

from uuid import UUID

import msgspec
import pytest

from agent.sources.registry import SourceRegistry
from logdrive.model.numbers import ABSENT, number_of
from tests.agent.sources.checkpoint.test_file import entry
from tests.agent.sources.test_readable import NoInputs

READ = number_of(300, b"x" * 300)


@pytest.mark.parametrize("position", [0, 200])
def test_the_checkpoint_keeps_the_store_before_until_the_next_one_has_the_gap__D5(
    position: int,
) -> None:
    registry = SourceRegistry("h", "a", NoInputs())
    known = msgspec.structs.replace(entry(), number=READ, store=UUID(int=1), seen=300)
    source = registry.restore_source(known, None, None)
    source.next_registrations()
    source.on_position(number_of(position, b"x" * position) or ABSENT, UUID(int=2), 0)
    written = registry.update_entry(source)
    assert (written.number, written.store) == (READ, UUID(int=1))

    gap = source.next_unsent_run()
    assert gap is not None
    source.on_acknowledged(source.epoch, gap, 0)
    written = registry.update_entry(source)
    assert (written.number, written.store) == (READ, UUID(int=2))


def test_what_is_known_of_bytes_that_are_gone_outlives_a_store_that_went_back__G5_G6() -> None:
    registry = SourceRegistry("h", "a", NoInputs())
    known = msgspec.structs.replace(entry(), number=READ, store=UUID(int=1), seen=300)
    source = registry.restore_source(known, None, None)
    source.next_registrations()
    source.on_position(ABSENT, UUID(int=1), 0)
    written = registry.update_entry(source)
    assert (written.number, written.store) == (0, UUID(int=1))
    assert (written.seen, written.last) == (300, READ)
