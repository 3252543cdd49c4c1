"""Interleaving, medians, ratios and the JSON that scripts read."""

from collections.abc import Mapping
from pathlib import Path

from bench.goals import Goal
from bench.measure import Benchmark, Outcome, Sample, Setting, run_interleaved
from bench.processes import BenchmarkError
from bench.report import as_json


class Counted:
    """A benchmark whose runs give one value after the other."""

    def __init__(self, name: str, values: list[float], order: list[str]) -> None:
        self.name, self.values, self.order = name, values, order

    def __call__(self, setting: Setting) -> Mapping[str, Sample]:
        self.order.append(self.name)
        value = self.values.pop(0)
        if value < 0:
            raise BenchmarkError("it delivered too little")
        return {"lines_per_second": Sample(value, "lines/s")}


def _run(runs: int, **values: list[float]) -> tuple[Outcome, list[str], list[Benchmark]]:
    order: list[str] = []
    group = [
        Benchmark(
            f"group.{name}",
            name,
            Counted(name, list(given), order),
            peers=("group.a",) if name == "b" else (),
        )
        for name, given in values.items()
    ]
    outcome = Outcome()
    run_interleaved(group, Setting(1000, Path("unused")), runs, outcome, lambda _: None)
    return outcome, order, group


def test_runs_are_interleaved_and_the_median_is_told_with_its_ratio() -> None:
    outcome, order, group = _run(3, a=[10, 20, 90], b=[40, 30, 50])
    assert order == ["a", "b"] * 3
    assert as_json(outcome, group) == {
        "group.a.lines_per_second": {
            "value": 20.0,
            "unit": "lines/s",
            "ratio": {},
            "runs": [10.0, 20.0, 90.0],
        },
        "group.b.lines_per_second": {
            "value": 40.0,
            "unit": "lines/s",
            "ratio": {"a": 2.0},
            "runs": [40.0, 30.0, 50.0],
        },
    }


def test_one_that_fails_is_told_and_not_run_again_and_the_others_go_on() -> None:
    outcome, order, _ = _run(2, a=[-1], b=[1, 2])
    assert order == ["a", "b", "b"]
    assert outcome.failed == {"group.a": "it delivered too little"}


def test_one_that_is_not_installed_is_skipped_with_a_word_how_to_install_it() -> None:
    outcome = Outcome()
    order: list[str] = []
    absent = Benchmark(
        "peer",
        "peer",
        Counted("peer", [], order),
        missing=lambda: "no peer here: apt-get install peer",
    )
    run_interleaved([absent], Setting(1000, Path("unused")), 2, outcome, lambda _: None)
    assert (order, outcome.skipped) == ([], {"peer": "no peer here: apt-get install peer"})


def test_a_goal_is_a_limit_from_below_or_from_above() -> None:
    assert Goal(at_least=1.0).met(1.0)
    assert not Goal(at_least=1.0).met(0.99)
    assert Goal(at_most=0.8).met(0.8)
    assert not Goal(at_most=0.8).met(0.81)


def test_what_was_prepared_is_taken_away_even_after_a_failure() -> None:
    left: list[str] = []
    failing = Benchmark(
        "failing",
        "",
        Counted("failing", [-1], []),
        prepare=lambda _: left.append("store"),
        finish=lambda _: left.remove("store"),
    )
    run_interleaved([failing], Setting(1000, Path("unused")), 1, Outcome(), lambda _: None)
    assert left == []
