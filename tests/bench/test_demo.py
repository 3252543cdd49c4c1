"""The demo that is timed is README's, and only one that was complete gives a figure."""

from pathlib import Path

import orjson
import pytest

from bench import demo
from bench.goals import GOALS
from bench.measure import Setting
from bench.processes import BenchmarkError

ROOT = Path(__file__).parents[2]


def _say(monkeypatch: pytest.MonkeyPatch, **found: object) -> list[str]:
    """Let the demo end with the result *found*; return the list that gets its command."""
    called: list[str] = []

    def output_of(command: list[str | Path], work: Path) -> bytes:
        called.extend(map(str, command))
        return orjson.dumps(found)

    monkeypatch.setattr(demo, "output_of", output_of)
    return called


def test_the_demo_of_the_readme_has_a_figure_with_a_goal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    called = _say(monkeypatch, complete=True, machine_files=0)
    (benchmark,) = demo.BENCHMARKS
    figures = benchmark.run(Setting(1000, tmp_path))
    assert called[:2] == ["demo", "--no-system-logs"]
    assert "make demo ARGS=--no-system-logs" in (ROOT / "README.md").read_text()
    ((name, sample),) = figures.items()
    (goal,) = GOALS[f"{benchmark.name}.{name}"]
    assert goal.met(sample.value)
    assert not goal.met(45.1)


@pytest.mark.parametrize(("complete", "machine_files"), [(False, 0), (True, 3)])
def test_a_demo_with_lines_missing_or_with_logs_of_the_machine_gives_no_figure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, complete: bool, machine_files: int
) -> None:
    _say(monkeypatch, complete=complete, machine_files=machine_files)
    with pytest.raises(BenchmarkError, match="not complete"):
        demo.BENCHMARKS[0].run(Setting(1000, tmp_path))
