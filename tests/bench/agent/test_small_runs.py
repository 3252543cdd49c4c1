"""Bursts of lines: what is written, what counts as stored, and that no two may come together."""

from pathlib import Path

import orjson
import pytest

from bench.agent import small_runs
from bench.lines import log_file
from bench.processes import BenchmarkError


def test_bursts_are_the_first_lines_of_the_log_in_their_order(tmp_path: Path) -> None:
    log = log_file(tmp_path, 3_000)
    bursts = list(small_runs.bursts_of(log, 100))
    assert {burst.count(b"\n") for burst in bursts} == {100}
    assert len(bursts) == 1 + small_runs.BURSTS[100]
    assert log.read_bytes().startswith(b"".join(bursts))


def test_a_log_that_is_too_short_is_told(tmp_path: Path) -> None:
    log = log_file(tmp_path, 3_000)
    with pytest.raises(BenchmarkError, match="a longer log"):
        list(small_runs.bursts_of(log, 10_000))


def test_the_zeros_at_the_end_of_a_log_file_are_not_stored_bytes(tmp_path: Path) -> None:
    (tmp_path / "log-0").write_bytes(b"entry\0entry" + bytes(4096))
    (tmp_path / "log-1").write_bytes(b"entry")
    (tmp_path / "index").write_bytes(b"index")
    assert small_runs.stored_bytes(tmp_path) == 16


@pytest.mark.parametrize(("batches", "runs"), [((5, 6), 1.0), ((22, 0), 2.0)])
def test_runs_of_a_burst_are_the_batches_of_all_segments(
    batches: tuple[int, int], runs: float, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _list(monkeypatch, *batches)
    assert small_runs.runs_of_a_burst("uri", 10, tmp_path) == runs


def test_bursts_that_came_together_give_no_figure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _list(monkeypatch, 5, 5)
    with pytest.raises(BenchmarkError, match="11 bursts made 10 runs"):
        small_runs.runs_of_a_burst("uri", 10, tmp_path)


def _list(monkeypatch: pytest.MonkeyPatch, *batches: int) -> None:
    """Let `store ls` tell of one segment for each of *batches*."""
    said = orjson.dumps({"segments": [{"batches": number} for number in batches]})
    monkeypatch.setattr(small_runs, "output_of", lambda command, work: said)
