"""Every benchmark there is, in the groups whose runs are interleaved."""

from collections.abc import Sequence

from bench import (
    acknowledgement,
    agent_files,
    agent_idle,
    agent_pace,
    agent_parts,
    codec,
    decode,
    decode_file,
    end_to_end,
    formats,
    iggy_store,
    read_ranges,
    receiver_idle,
    s2_store,
    small_runs,
    store_append,
    store_flood,
    store_open,
    store_read,
    store_tail,
)
from bench.measure import Benchmark
from bench.peer_group import peers
from bench.steps import agent_steps
from bench.tables import audit, fill, keep_up, silver, trickle


def groups() -> Sequence[Sequence[Benchmark]]:
    """Return the groups in the order in which they are run."""
    return (
        [*end_to_end.BENCHMARKS, *peers()],
        small_runs.BENCHMARKS,
        acknowledgement.BENCHMARKS,
        agent_idle.BENCHMARKS,
        agent_files.BENCHMARKS,
        agent_pace.BENCHMARKS,
        agent_parts.BENCHMARKS,
        agent_steps.BENCHMARKS,
        receiver_idle.BENCHMARKS,
        codec.BENCHMARKS,
        decode.BENCHMARKS,
        decode_file.BENCHMARKS,
        formats.BENCHMARKS,
        *store_append.APPENDS,
        store_append.COMMITS,
        store_read.BENCHMARKS,
        store_tail.BENCHMARKS,
        read_ranges.BENCHMARKS,
        *store_flood.GROUPS,
        *store_open.GROUPS,
        *s2_store.GROUPS,
        *iggy_store.GROUPS,
        fill.BENCHMARKS,
        trickle.BENCHMARKS,
        keep_up.BENCHMARKS,
        audit.BENCHMARKS,
        silver.BENCHMARKS,
    )
