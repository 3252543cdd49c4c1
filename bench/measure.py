"""What a benchmark is, and how several are run in turn, so that noise meets all alike."""

import contextlib
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from bench.certificates import Certificates, certificates
from bench.lines import log_file
from bench.processes import BenchmarkError


@dataclass(frozen=True, slots=True)
class Setting:
    """What every benchmark is given."""

    lines: int  # of the log
    work: Path  # directory for logs and stores
    store_mib: int = 10_240  # size of the store that is opened

    @property
    def log(self) -> Path:
        """The file of `bench.lines`."""
        return log_file(self.work, self.lines)

    @property
    def certificates(self) -> Certificates:
        """One authority, one server, one client."""
        return certificates(self.work / "certs")

    def seconds(self, lines_per_second: float) -> float:
        """Return the time limit of a run that makes at least *lines_per_second*, with a minute for
        what does not grow.
        """
        return 60 + self.lines / lines_per_second


@dataclass(frozen=True, slots=True)
class Sample:
    """One measured value."""

    value: float
    unit: str


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that *share* of *values* don't exceed."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


@dataclass(frozen=True, slots=True)
class Benchmark:
    """One thing that is measured."""

    name: str
    title: str
    # returns the figures of one run; raises `BenchmarkError` if the work was not done
    run: Callable[[Setting], Mapping[str, Sample]]
    # returns what the machine lacks for it, and how to install that; None for nothing
    missing: Callable[[], str | None] = lambda: None
    # called once before all runs; not measured
    prepare: Callable[[Setting], object] = lambda _: None
    # called once after them; removes what `prepare` has made
    finish: Callable[[Setting], object] = lambda _: None
    # names of the benchmarks to which its figures get ratios
    peers: tuple[str, ...] = ()


@dataclass(slots=True)
class Series:
    """Every run's value of one figure."""

    unit: str
    values: list[float] = field(default_factory=list)

    @property
    def median(self) -> float:
        """The value reported."""
        return statistics.median(self.values)


@dataclass(slots=True)
class Outcome:
    """All figures, and the benchmarks without figures."""

    figures: dict[str, Series] = field(default_factory=dict)  # by full name
    skipped: dict[str, str] = field(default_factory=dict)  # benchmark -> what the machine lacks
    failed: dict[str, str] = field(default_factory=dict)  # benchmark -> its error


def run_interleaved(
    group: Sequence[Benchmark],
    setting: Setting,
    runs: int,
    outcome: Outcome,
    say: Callable[[str], None],
) -> None:
    """Run the benchmarks in turn, *runs* times, and add their figures to *outcome*.

    One that fails is not run again.
    """
    present = [benchmark for benchmark in group if not _skipped(benchmark, outcome, say)]
    try:
        for benchmark in present:
            with _failures(benchmark, outcome, say):
                benchmark.prepare(setting)
        for number in range(1, runs + 1):
            for benchmark in present:
                if benchmark.name not in outcome.failed:
                    say(f"{benchmark.name}: run {number} of {runs}")
                    with _failures(benchmark, outcome, say):
                        _note(benchmark, benchmark.run(setting), outcome)
    finally:
        for benchmark in present:
            benchmark.finish(setting)


def _skipped(benchmark: Benchmark, outcome: Outcome, say: Callable[[str], None]) -> bool:
    lack = benchmark.missing()
    if lack is not None:
        outcome.skipped[benchmark.name] = lack
        say(f"{benchmark.name}: skipped, {lack}")
    return lack is not None


def _note(benchmark: Benchmark, samples: Mapping[str, Sample], outcome: Outcome) -> None:
    for name, sample in samples.items():
        outcome.figures.setdefault(f"{benchmark.name}.{name}", Series(sample.unit)).values.append(
            sample.value
        )


@contextlib.contextmanager
def _failures(benchmark: Benchmark, outcome: Outcome, say: Callable[[str], None]) -> Iterator[None]:
    try:
        yield
    except BenchmarkError as error:
        outcome.failed[benchmark.name] = str(error)
        say(f"{benchmark.name}: failed, {error}")
