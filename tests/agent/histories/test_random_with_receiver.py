"""Random histories of files against the real receiver and store, which are killed and powered off
(D2, D3, G1–G4).
"""

import random

import pytest

from tests.agent.histories.test_random_histories import Lives, act, finish, judge_pieces
from tests.agent.world import World
from tests.receiver.world import configuration, ledger, receiver
from tests.support.memory.disk import MemoryDisk
from tests.support.reader_model import ReaderModel
from tests.support.virtual_time import run

_NOT_OURS = ("crash", "fail", "slow", "refuse")


@pytest.mark.parametrize("seed", range(8))
def test_random_history_with_a_receiver_that_dies__D2_D3(seed: int) -> None:
    async def main() -> None:
        pick = random.Random(seed)
        world = World(seed, quiet_seconds=2, end_after_seconds=3)
        world.settings["output"]["hosts"] = ["receiver:5044"]
        world.settings["output"]["windows_in_flight"] = pick.choice((1, 3, 8))
        lives, disk, nobody = Lives(world, pick), MemoryDisk(), ReaderModel()
        world.start()
        for life in range(7):
            async with receiver(
                network=world.network, disk=disk, config=configuration(tls="off")
            ) as real:
                for _ in range(6):
                    await act(world, lives, nobody, pick, without=_NOT_OURS)
                if life < 6:
                    await real.crash()
                    disk = disk.crash(pick) if pick.random() < 0.5 else disk.killed()
                else:
                    await finish(world, lives)
                    await world.stop()
        delivered = (await ledger(disk)).sources.values()
        judge_pieces(
            [
                (found.path, [(at, at + len(data), data) for at, data in found.pieces], found.gaps)
                for found in delivered
            ],
            lives,
        )

    run(main())
