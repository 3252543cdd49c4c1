"""Files are looked at in the order in which they are due, and seldom while they are at rest."""

from agent.config.files import InputTable
from agent.inputs.files.file import Generation
from agent.inputs.files.followed import FollowedFile
from agent.inputs.files.look_schedule import LookSchedule
from agent.inputs.files.paths.locate import Locator
from agent.inputs.files.poll_intervals import nap_seconds
from agent.sources.place import FileLocation
from logdrive.host.clock import Clock
from tests.agent.world import World
from tests.support.virtual_time import run


class _Clock(Clock):
    """A clock that moves only when it is set."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now

    def now_ms(self) -> int:
        return int(self.now * 1000)

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


def followed_file(number: int) -> FollowedFile:
    settings = InputTable(paths=["/logs/*"])
    place = FileLocation(f"/logs/{number}", f"/logs/{number}", "/", 1, number, 0)
    return FollowedFile(Generation(place, settings))


def test_files_that_are_due_at_the_same_time_keep_their_order() -> None:
    clock = _Clock()
    files = [followed_file(number) for number in range(5)]
    schedule = LookSchedule(clock, files)
    for each in files:
        schedule.add_due_now(each)
    assert schedule.take_due(clock.now, 3) == files[:3]
    assert schedule.seconds_until_due(clock.now) == 0.0
    assert schedule.take_due(clock.now, 3) == files[3:]
    assert schedule.seconds_until_due(clock.now) is None


def test_a_file_without_growth_is_looked_at_less_and_less_often_until_it_grows() -> None:
    clock = _Clock()
    file = followed_file(1)
    schedule = LookSchedule(clock, [file] * 1000)
    schedule.add_after_look(file, clock.now, has_grown=True)
    first = file.interval
    intervals = [first]
    for _ in range(20):
        clock.now += file.interval
        assert schedule.take_due(clock.now, 2) == [file]
        schedule.postpone(file, clock.now)
        intervals.append(file.interval)
    assert intervals == sorted(intervals)
    assert intervals[-1] > first
    clock.now += file.interval
    assert schedule.take_due(clock.now, 2) == [file]
    schedule.add_after_look(file, clock.now, has_grown=True)
    assert file.interval == first


def test_a_file_is_due_not_after_its_interval_and_hardly_before() -> None:
    clock = _Clock()
    files = [followed_file(number) for number in range(300)]
    schedule = LookSchedule(clock, files)
    planned = {}
    for number, file in enumerate(files):
        clock.now = 1000 + number / 299
        file.interval = number / 77
        schedule.add_after_look(file, clock.now, has_grown=False)
        planned[file] = clock.now + file.interval
    clock.now = 1000.0
    due = []
    while (wait := schedule.seconds_until_due(clock.now)) is not None:
        clock.now += wait
        for found in schedule.take_due(clock.now, 1):
            early = 0.01 + found.interval / 8
            assert planned[found] - early < clock.now <= planned[found]
            due.append(found)
    assert sorted(due, key=files.index) == files


def test_ten_thousand_files_at_rest_are_due_together_a_few_times_a_second() -> None:
    clock = _Clock()
    clock.now = 1000.0
    files = [followed_file(number) for number in range(10_000)]
    schedule = LookSchedule(clock, files)
    for file in files:
        clock.now += 0.0005
        file.interval = 10.0
        schedule.add_after_look(file, clock.now, has_grown=False)
    until, times, looks = clock.now + 30, 0, 0
    while clock.now < until:
        wait = schedule.seconds_until_due(clock.now)
        assert wait is not None
        clock.now += wait
        for file in schedule.take_due(clock.now, 10_000):
            schedule.postpone(file, clock.now)
            looks += 1
        times += 1
    assert 3 * 10_000 <= looks <= 3.3 * 10_000, "each file every ten seconds"
    assert times <= 30 * 2 + 1


def test_a_file_that_lacks_a_handle_asks_again_sooner_than_one_at_rest_would() -> None:
    clock = _Clock()
    waiting, resting = followed_file(1), followed_file(2)
    clock.now = 1000.0
    schedule = LookSchedule(clock, [resting] * 20_000)
    waiting.set_trouble("too many open files", lacks_handle=True)
    for file in (waiting, resting):
        file.interval = 10.0
        schedule.add_after_look(file, clock.now, has_grown=False)
    assert waiting.interval < resting.interval


def test_a_nap_is_no_longer_than_a_new_file_may_wait() -> None:
    for files in (0, 1, 500, 10_000, 1_000_000):
        for wait in (None, 0.001, 0.2, 60.0):
            assert 0.01 <= nap_seconds(wait, files) <= 0.5
    assert nap_seconds(60.0, 500) == nap_seconds(None, 0) == 0.25
    assert nap_seconds(0.2, 500) == 0.2


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
        look = agent.tailer.looks.look_at

        def counted(followed: FollowedFile, locator: Locator | None = None) -> None:
            nonlocal polls
            polls += 1
            look(followed, locator)

        agent.tailer.looks.look_at = counted  # type: ignore[method-assign]
        await world.clock.sleep(4)
        assert polls <= 22_000, "at most five thousand looks a second"
        await world.kill()

    run(main())
