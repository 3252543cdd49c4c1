"""An agent with few handles, and logrotate's `olddir`: each file is one source, whatever moves
where (rule G1).
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import installation as installations
from tests.support.installation import Installation, command

pytestmark = pytest.mark.process

FILES = 40
"""With 64 handles the agent opens 32 files at most."""


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path, certificates)
    config = installation.root / "agent.toml"
    config.write_text(
        config.read_text().replace('.log*"]', f'.log*", "{installation.logs}/old/*"]')
    )
    (installation.logs / "old").mkdir()
    yield installation
    installation.close()


def test_files_that_move_to_another_watched_directory_are_sent_once(
    system: Installation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`ulimit -n 64`, everything else as it is by default."""
    receiver = system.receiver()
    names = [f"{number:02d}.log" for number in range(FILES)]
    for name in names:
        (system.logs / name).write_bytes(_lines(name, 0, 20))
    monkeypatch.setattr(
        installations,
        "command",
        lambda *all_: ["sh", "-c", 'ulimit -n 64; exec "$0" "$@"', *command(*all_)],
    )
    agent = system.agent()
    system.await_acknowledged(sum(len(_lines(name, 0, 20)) for name in names))
    expected = {_lines(name, 0, 25) for name in names} | {
        _lines(f"next {name}", 0, 5) for name in names
    }
    for name in names:
        old = system.logs / "old" / f"{name}.1"
        (system.logs / name).rename(old)
        with old.open("ab") as file:
            file.write(_lines(name, 20, 5))
        (system.logs / name).write_bytes(_lines(f"next {name}", 0, 5))
    system.await_acknowledged(sum(map(len, expected)))
    assert agent.terminate(90) == 0, agent.said()
    assert "file gone" not in agent.said()
    assert receiver.terminate() == 0, receiver.said()
    ledger = system.ledger()
    assert set(ledger.by_data()) == expected
    assert len(ledger.sources) == 2 * FILES, "a file was sent under two names"


def _lines(name: str, first: int, count: int) -> bytes:
    return b"".join(
        b"%s line %d\n" % (name.encode(), number) for number in range(first, first + count)
    )
