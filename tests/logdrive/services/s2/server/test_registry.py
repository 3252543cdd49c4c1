"""The registry's journal: what was committed is there after a kill, and the journal stays short."""

from random import Random
from uuid import UUID

import pytest

from logdrive.errors import StorageError
from logdrive.services.s2.server.registry import Registry
from logdrive.services.s2.server.state import (
    SEGMENT,
    BasinPut,
    NameSet,
    RegisteredStream,
    S2Basin,
    S2Put,
    S2State,
    S2StreamPut,
    S2Token,
    TokenPut,
    TokenScope,
)
from logdrive.store.engine import Store
from logdrive.wire.s2.configs import (
    BasinConfig,
    Cipher,
    ResolvedStreamConfig,
    RetentionPeriod,
    S2StreamConfig,
    TimestampingMode,
)
from logdrive.wire.s2.errors import invalid
from tests.logdrive.services.s2.server.harness import refused
from tests.logdrive.store.harness import running
from tests.support.memory.disk import MemoryDisk
from tests.support.registry_lives import check_lives
from tests.support.virtual_time import run

CONFIG = BasinConfig(
    S2StreamConfig(retention=RetentionPeriod(None), mode=TimestampingMode.ARRIVAL),
    Cipher.AES_256_GCM,
    True,
)
STREAM = RegisteredStream(
    ResolvedStreamConfig(uncapped=True),
    "_s2-0",
    "first-basin/_s2-0/0.#epoch.0",
    17,
    Cipher.AEGIS_256,
    "token",
    S2StreamConfig(delete_on_empty_seconds=3),
)
TOKEN = S2Token("ab" * 32, TokenScope(streams=NameSet(prefix="a/"), ops=("read",)), True, 99)


def random_put(random: Random) -> S2Put:
    basin, name = random.choice(("basin-1", "basin-2")), random.choice(("a", "b/c", "é"))
    gone = random.random() < 0.3
    match random.randrange(3):
        case 0:
            return BasinPut(
                basin, None if gone else S2Basin(CONFIG, random.randrange(100), "local")
            )
        case 1:
            return S2StreamPut(basin, name, None if gone else STREAM)
        case _:
            return TokenPut(name, None if gone else TOKEN)


def known(state: S2State) -> tuple[object, ...]:
    streams = {basin: found for basin, found in state.streams.items() if found}
    return state.basins, streams, state.tokens, state.token_ids


def test_what_was_committed_is_there_after_a_kill_and_the_journal_stays_short() -> None:
    def make(store: Store, slack: int) -> Registry:
        return Registry(store, slack=slack)

    run(check_lives(SEGMENT, make, random_put, known))


def test_a_refusal_leaves_the_state_and_other_failures_have_it_read_again() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=0.001) as store:
            registry = Registry(store)
            async with registry.turn():
                await registry.commit_puts([TokenPut("a", TOKEN)])
            kept = registry.state
            with refused("invalid"):
                async with registry.turn():
                    raise invalid("no")
            assert registry.state is kept
            with pytest.raises(ZeroDivisionError):
                async with registry.turn():
                    raise ZeroDivisionError
            async with registry.turn() as state:
                assert state is not kept
                assert known(state) == known(kept)

    run(main())


def test_a_journal_that_someone_else_wrote_to_is_refused_by_name() -> None:
    async def main() -> None:
        async with running(MemoryDisk(), delay=0.001) as store:
            await store.create(SEGMENT)
            junk = (0).to_bytes(4, "big") + (2).to_bytes(4, "big") + b"{}"
            await store.append(SEGMENT, junk, writer=UUID(int=1), expected=None, number=1, events=1)
            with pytest.raises(StorageError, match=r"_system/_s2/0.#epoch.0 has no change"):
                async with Registry(store).turn():
                    pass

    run(main())
