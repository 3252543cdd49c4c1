"""The load of Iggy's benchmarks sends and polls what it says, or fails."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.goals import GOALS
from bench.iggy.load import MEMBERS, poll, poll_group, send
from bench.iggy.places import IggyPlace, MakePlace, ours, real
from bench.iggy.store import GROUPS
from bench.measure import Setting
from bench.processes import BenchmarkError
from logdrive.wire.iggy.revision import Revision
from tests.support.iggy.servers import REVISIONS, need_iggy_server

pytestmark = pytest.mark.process

_OURS = (Revision.R0, Revision.R1, Revision.R2C, Revision.R3)
_PLACES: dict[str, MakePlace] = {
    **{f"ours {one.name}": ours(one) for one in _OURS},
    **{f"real {one}": real(one) for one in REVISIONS},
}


@pytest.fixture(params=_PLACES)
def make(request: pytest.FixtureRequest) -> MakePlace:
    for one in REVISIONS:
        if request.param == f"real {one}":
            need_iggy_server(one)
    return _PLACES[request.param]


@pytest.fixture
def place(make: MakePlace, tmp_path: Path) -> Iterator[IggyPlace]:
    with make(Setting(1000, tmp_path), 1) as running:
        yield running


def test_what_is_sent_is_acknowledged_and_polled(place: IggyPlace) -> None:
    sent = send(place, 20, 841, 8)
    assert len(sent.waits) == 20
    assert sent.messages == 20 * 841
    assert poll(place, 20, 841).messages == sent.messages


def test_less_than_expected_is_no_figure(place: IggyPlace) -> None:
    send(place, 2, 841, 1)
    with pytest.raises(BenchmarkError, match="1682 of 2523 messages"):
        poll(place, 3, 841)
    with pytest.raises(BenchmarkError, match="message 0 is not what was sent"):
        poll(place, 1, 840)


def test_every_message_comes_to_one_member_of_a_group(make: MakePlace, tmp_path: Path) -> None:
    with make(Setting(1000, tmp_path), MEMBERS) as place:
        send(place, 2 * MEMBERS, 600, 8, MEMBERS)
        assert poll_group(place, 2 * MEMBERS, 600).messages == 2 * MEMBERS * 600


def test_each_goal_is_of_a_figure_that_is_measured() -> None:
    measured = {f"{one.name}.throughput" for group in GROUPS for one in group}
    goals = {name for name in GOALS if name.startswith("iggy.")}
    assert goals == {name for name in measured if ".ours_" in name and ".send_" in name}
    peers = {one.name for group in GROUPS for one in group}
    for name in goals:
        for goal in GOALS[name]:
            assert f"{name.rsplit('.', 2)[0]}.{goal.peer}" in peers
