"""SIGKILL of a receiver while it frees log files: what is left of its store is whole batches,
without a hole (D3, S6).

Real processes, real TLS, a real disk; retention keeps little, so that files are freed all the time.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from logdrive.host.disk import SystemDisk
from logdrive.model.batch import parse_header
from logdrive.model.framing import EVENT_HEAD, event_length
from logdrive.store.verify.verify import verify
from tests.faults.test_sigkill import Writer, runs_until_killed
from tests.support.installation import Installation, read_segments

pytestmark = pytest.mark.process

_KEPT = 1_500_000
_LITTLE = f'log_file_bytes = 1048576\n\n[[retention]]\nstream = "*/*"\nmax_bytes = {_KEPT}\n'


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path, certificates, receiver_extra=_LITTLE)
    yield installation
    installation.close()


def _check_chains(segment: bytes) -> None:
    """Hop over *segment*: batch after batch, each source's next one beginning where its last one
    ended.
    """
    at, ends = 0, dict[str, int]()
    while at < len(segment):
        payload = at + EVENT_HEAD + event_length(segment[at : at + EVENT_HEAD])
        header = parse_header(segment[at + EVENT_HEAD : payload])
        assert header.position is not None
        assert header.previous == ends.get(header.source, header.previous)
        ends[header.source] = header.position
        at = payload + header.size
    assert at == len(segment)


@pytest.mark.parametrize("point", ["store.free.before_remove", "store.free.after_remove"])
def test_receiver_killed_while_it_frees_log_files__D3_S6(system: Installation, point: str) -> None:
    writer = Writer(system.logs, 4)
    writer.write(20_000)
    receiver, agent = system.receiver(fault=f"{point}:2"), system.agent()
    runs_until_killed(receiver, lambda: writer.write(2000))
    assert receiver.wait(1) == -9, f"{point} was never reached:\n{receiver.said()}"
    assert verify(SystemDisk(), str(system.store)).intact
    receiver = system.receiver()
    writer.write(2000)
    assert agent.terminate(90) == 0, agent.said()
    assert receiver.terminate() == 0, receiver.said()
    assert verify(SystemDisk(), str(system.store)).intact
    segments = asyncio.run(read_segments(str(system.store)))
    assert any(segments)
    for segment in segments:
        _check_chains(segment)
