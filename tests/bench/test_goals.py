"""Goals are of figures that there are, and their peers are measured beside them."""

from bench.catalog import groups
from bench.goals import GOALS


def test_every_goal_is_of_a_benchmark_and_of_a_peer_in_its_group() -> None:
    by_name = {benchmark.name: group for group in groups() for benchmark in group}
    peers = {benchmark.name: benchmark.peers for group in groups() for benchmark in group}
    for figure, goals in GOALS.items():
        name = figure.rpartition(".")[0]
        assert name in by_name, figure
        for goal in goals:
            if goal.peer is not None:
                peer = next(peer for peer in peers[name] if peer.rpartition(".")[2] == goal.peer)
                assert peer in {benchmark.name for benchmark in by_name[name]}


def test_no_two_benchmarks_have_one_name() -> None:
    names = [benchmark.name for group in groups() for benchmark in group]
    assert sorted(names) == sorted(set(names))
