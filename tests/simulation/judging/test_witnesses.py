"""What agents knew when files went: what the judge asks of them afterwards."""

from zlib import crc32

import orjson

from logdrive.host.disk import FileStat
from tests.simulation.hosts.applications import Applications
from tests.simulation.judging.witnesses import Starts, Witness, entry_of
from tests.simulation.trace import Trace
from tests.support.memory.disk import MemoryDisk

_PATH = "/state/checkpoint.json"


def _disk(*entries: dict[str, object], durable: bool = True) -> MemoryDisk:
    disk = MemoryDisk(["/state", "/logs"])
    disk.write(_PATH, orjson.dumps({"version": 1, "entries": entries}), durable=durable)
    return disk


def _starts(*disks: MemoryDisk, lost: int = 0) -> Starts:
    starts = Starts()
    for number, disk in enumerate(disks, 1):
        starts.begin(number, disk, _PATH, lost=number == lost)
    return starts


_ENTRY = {"origin": "a", "inode": 7, "span": 6, "crc": crc32(b"first\n")}
_ENDED = {**_ENTRY, "ended": "removed"}


def test_a_life_in_every_later_checkpoint_has_to_be_told() -> None:
    witness = Witness(1, entry="a")
    assert _starts(_disk(), _disk(_ENTRY), _disk(_ENDED)).remember(witness)
    assert not _starts(_disk(), _disk(), _disk(_ENDED)).remember(witness)
    assert not _starts(_disk(), _disk(_ENTRY), _disk(_ENDED), lost=3).remember(witness)


def test_a_life_must_stay_in_the_checkpoint_once_no_power_cut_takes_it_back() -> None:
    assert _starts(_disk(_ENDED), _disk()).forgotten() == "a"
    assert not _starts(_disk(_ENDED), _disk(_ENDED)).forgotten()
    assert not _starts(_disk(_ENDED, durable=False), _disk()).forgotten()
    assert not _starts(_disk(_ENDED), _disk(), lost=2).forgotten()
    assert not _starts(_disk({**_ENTRY, "counting": "many"}), _disk()).forgotten()


def test_a_checkpoint_knows_one_life_of_a_file() -> None:
    disk = _disk(_ENTRY)
    content = b"first\nsecond\n"
    assert entry_of(disk, _PATH, 7, content, []) == "a"
    assert not entry_of(disk, _PATH, 7, content, ["a"])
    assert not entry_of(disk, _PATH, 8, content, [])
    assert not entry_of(_disk(_ENDED), _PATH, 7, content, [])


def test_a_checkpoint_knows_nothing_of_a_life_with_another_first_line() -> None:
    assert not entry_of(_disk(_ENTRY), _PATH, 7, b"other\nsecond\n", [])
    assert not entry_of(_disk(_ENTRY), _PATH, 7, b"first", [])


class _Agent:
    """Has every file open, or none."""

    def __init__(self) -> None:
        self.held = True
        self.incarnation = 1

    def knows(self, stat: FileStat, content: object, taken: object) -> Witness:
        return Witness(1, held=self.held)

    def holds(self, stat: FileStat, witness: Witness) -> bool:
        return self.held


def test_what_is_written_after_an_unlink_is_owed_while_an_agent_has_the_file_open() -> None:
    disk, agent = MemoryDisk(["/logs"]), _Agent()
    applications = Applications("host", lambda: disk, agent, Trace(lambda: 0.0))
    applications.write("a", 3, "plain", 1)
    applications.unlink("a", 2, 1)
    (life,) = applications.lives
    before = life.owed
    applications.write("a", 1, "plain", 2)
    owed = life.owed
    agent.held = False
    applications.write("a", 1, "plain", 3)
    assert before < owed == life.owed < len(life.data)
