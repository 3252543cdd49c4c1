"""Files at rest are looked at seldom."""

from tests.agent.world import World
from tests.support.virtual_time import run


def test_thousands_of_resting_files_cost_little() -> None:
    world = World()
    for number in range(3000):
        world.write(b"line\n", f"/logs/{number}.log")

    async def main() -> None:
        world.start()
        await world.clock.sleep(10)
        agent = world.agent
        assert agent is not None
        assert len(agent.tailer.followed) == 3000
        polls = 0
        look = agent.tailer._look_at

        def counted(followed: object) -> None:
            nonlocal polls
            polls += 1
            look(followed)  # type: ignore[arg-type]

        agent.tailer._look_at = counted  # type: ignore[method-assign]
        await world.clock.sleep(4)
        assert polls <= 22_000, "at most five thousand looks a second"
        await world.kill()

    run(main())
