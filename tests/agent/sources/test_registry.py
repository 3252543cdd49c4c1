"""What the checkpoint keeps of a source (D5, G5)."""

from uuid import UUID

import msgspec

from agent.sources.registry import SourceRegistry
from logdrive.model.numbers import ABSENT, number_of
from tests.agent.sources.checkpoint.test_file import entry
from tests.agent.sources.test_readable import NoInputs

READ = number_of(300, b"x" * 300)


def test_what_is_known_of_bytes_that_are_gone_outlives_the_change_to_another_store__D5_G5() -> None:
    registry = SourceRegistry("h", "a", NoInputs())
    known = msgspec.structs.replace(entry(), number=READ, store=UUID(int=1), seen=300)
    source = registry.restore_source(known, None, None)
    source.next_registrations()
    source.on_position(ABSENT, UUID(int=2), 0)
    written = registry.update_entry(source)
    assert (written.number, written.store) == (0, UUID(int=2))
    assert (written.seen, written.last) == (300, READ)
