"""Every benchmark there is, in the groups whose runs are interleaved."""

from collections.abc import Sequence

from bench import codec, demo, end_to_end
from bench.agent import files, pace, parts, small_runs
from bench.agent import idle as agent_idle
from bench.iggy import store as iggy_store
from bench.measure import Benchmark
from bench.peer_group import peers
from bench.receiver import acknowledgement
from bench.receiver import idle as receiver_idle
from bench.s2 import store as s2_store
from bench.steps import agent_steps
from bench.store import append, flood, read, tail
from bench.store import open as store_open
from bench.tables import (
    audit,
    decode,
    decode_file,
    fill,
    formats,
    keep_up,
    read_ranges,
    silver,
    trickle,
)


def groups() -> Sequence[Sequence[Benchmark]]:
    """Return the groups in the order in which they are run."""
    return (
        [*end_to_end.BENCHMARKS, *peers()],
        small_runs.BENCHMARKS,
        acknowledgement.BENCHMARKS,
        agent_idle.BENCHMARKS,
        files.BENCHMARKS,
        pace.BENCHMARKS,
        parts.BENCHMARKS,
        agent_steps.BENCHMARKS,
        receiver_idle.BENCHMARKS,
        codec.BENCHMARKS,
        decode.BENCHMARKS,
        decode_file.BENCHMARKS,
        formats.BENCHMARKS,
        *append.APPENDS,
        append.COMMITS,
        read.BENCHMARKS,
        tail.BENCHMARKS,
        read_ranges.BENCHMARKS,
        *flood.GROUPS,
        *store_open.GROUPS,
        *s2_store.GROUPS,
        *iggy_store.GROUPS,
        fill.BENCHMARKS,
        trickle.BENCHMARKS,
        keep_up.BENCHMARKS,
        audit.BENCHMARKS,
        silver.BENCHMARKS,
        demo.BENCHMARKS,
    )
