"""What histories of copies have in common: a log that is copied, truncated, and held."""

from tests.agent.world import LOG, World, lines
from tests.support.reader_model import ReaderModel, Stored

COPY = f"{LOG}.1"
NEXT = lines(0, 10, prefix="next")
HEADER = b"time,level,message\n"


def sources_of(reader: ReaderModel) -> list[Stored]:
    """Return the sources of which anything is stored."""
    return [each for each in reader.stored.values() if each.data or each.gaps]


async def until_at_rest(world: World) -> None:
    """Wait until a copy that is at rest counts as whole, and all is sent."""
    await world.clock.sleep(15)
    await world.settle()


async def ship_behind_the_checkpoint(world: World, data: bytes) -> None:
    """Let *data* be shipped, and the agent be killed before its checkpoint knows of it."""
    await world.clock.sleep(2)
    kept = world.disk.content("/state/checkpoint.json")
    world.write(data)
    await world.clock.sleep(1)
    await world.settle()
    await world.kill()
    world.forget()
    world.write(kept, "/state/checkpoint.json")


def copytruncate(world: World, to: str = COPY) -> bytes:
    data = world.disk.content(LOG)
    world.write(data, to)
    world.truncate()
    return data


async def see_a_life_go_untold(world: World) -> tuple[int, int, str, bool]:
    """Let a life be seen by an agent without a receiver, and be truncated while none runs.

    Returns its gap.
    """
    life = HEADER + NEXT * 100
    world.write(life)
    await world.crash_reader()
    world.start()
    await world.clock.sleep(3)
    await world.kill()
    world.truncate()
    return 0, len(life), "truncated", False
