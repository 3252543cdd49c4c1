"""The load of S2's benchmarks appends and reads what it says, or fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.measure import Setting
from bench.processes import BenchmarkError
from bench.s2.load import BATCH_BYTES, append, read
from bench.s2.places import S2Server, ours

pytestmark = pytest.mark.process


@pytest.fixture
def server(tmp_path: Path) -> Iterator[S2Server]:
    with ours(Setting(1000, tmp_path)) as running:
        yield running


def test_what_is_appended_is_acknowledged_and_read(server: S2Server) -> None:
    appended = append(server, 70, 16)
    assert appended.bytes == 70 * BATCH_BYTES
    assert len(appended.waits) == 70
    assert read(server, 70).bytes == appended.bytes


def test_less_than_expected_is_no_figure(server: S2Server) -> None:
    append(server, 2, 1)
    with pytest.raises(BenchmarkError, match="2000 of 3000 records"):
        read(server, 3)
    with pytest.raises(BenchmarkError, match="acknowledgement 1 is of"):
        append(server, 1, 1)
