"""Every benchmark there is, in the groups whose runs are interleaved."""

from collections.abc import Sequence

from bench import acknowledgement, codec, decode, end_to_end, spark_table, store_append, store_face
from bench.measure import Benchmark
from bench.peer_group import peers


def groups() -> Sequence[Sequence[Benchmark]]:
    """Return the groups in the order in which they are run."""
    return (
        [*end_to_end.BENCHMARKS, *peers()],
        acknowledgement.BENCHMARKS,
        codec.BENCHMARKS,
        decode.BENCHMARKS,
        store_append.BENCHMARKS,
        store_face.BENCHMARKS,
        spark_table.BENCHMARKS,
    )
