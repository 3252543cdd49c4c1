"""Consumer groups: partitions are shared out evenly, once each, and wait for commits."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from logdrive.services.iggy.server.state.rebalancing import (
    PATIENCE_SECONDS,
    GroupMembers,
    shared_out,
)
from logdrive.wire.iggy.revision import Revision

CLIENTS = st.integers(1, 6)


@given(
    st.sets(st.integers(0, 20)),
    st.lists(CLIENTS, unique=True),
    st.dictionaries(st.integers(0, 20), CLIENTS),
)
def test_shares_are_even_and_no_more_is_moved_than_needed(
    partitions: set[int], members: list[int], owners: dict[int, int]
) -> None:
    target = shared_out(partitions, members, owners)
    if not members:
        assert target == {}
        return
    assert target.keys() == partitions
    counts = Counter(dict.fromkeys(members, 0)) + Counter(target.values())
    sizes = [counts[member] for member in members]
    assert max(sizes) - min(sizes) <= 1
    held = Counter(owners[one] for one in partitions if owners.get(one) in members)
    stayed = sum(target[one] == owners.get(one) for one in partitions)
    # as many as even shares allow
    least, more = divmod(len(partitions), len(members))
    shares = [least + (rank < more) for rank in range(len(members))]
    most = sorted((held[member] for member in members), reverse=True)
    assert stayed == sum(min(have, share) for have, share in zip(most, shares, strict=True))


class Group(RuleBasedStateMachine):
    """A group of clients that know how to wait; the model is what each has polled."""

    def __init__(self) -> None:
        super().__init__()
        self.group = GroupMembers()
        self.now = 0.0
        self.partitions: tuple[int, ...] = (0, 1, 2, 3)
        # by partition: who has polled it and not committed
        self.holds: dict[int, int] = {}
        self.group.update(self.partitions, self.now)

    @rule(client=CLIENTS)
    def join(self, client: int) -> None:
        self.group.join(client, Revision.R2C, self.now)

    @rule(client=CLIENTS)
    def leave(self, client: int) -> None:
        self.group.leave(client, self.now)
        self.holds = {key: held for key, held in self.holds.items() if held != client}

    @rule(client=CLIENTS)
    def poll(self, client: int) -> None:
        if client not in self.group.members:
            return
        partition = self.group.next_partition(client)
        if partition is not None:
            # what somebody else has polled and not committed is never polled by another
            assert self.holds.get(partition, client) == client
            self.group.on_polled(partition, 5)
            self.holds[partition] = client

    @rule(partition=st.integers(0, 5))
    def commit(self, partition: int) -> None:
        self.group.on_committed(partition, 5)
        self.holds.pop(partition, None)

    @rule(count=st.integers(0, 6))
    def resize(self, count: int) -> None:
        self.partitions = tuple(range(count))
        self.group.update(self.partitions, self.now)
        self.holds = {key: held for key, held in self.holds.items() if key < count}

    @rule()
    def wait(self) -> None:
        self.now += PATIENCE_SECONDS
        self.group.update(self.partitions, self.now)
        # what was to move has moved
        self.holds = {
            partition: client
            for partition, client in self.holds.items()
            if partition in self.group.partitions_of(client)
        }

    @invariant()
    def each_partition_has_one_poller(self) -> None:
        polled = [
            partition
            for client in self.group.members
            for partition in self.group.partitions_of(client)
        ]
        assert len(polled) == len(set(polled))
        assert set(polled) <= set(self.partitions)
        missing = set(self.partitions) - set(polled)
        if self.group.members:
            assert missing <= set(self.holds)


TestGroup = Group.TestCase


def grown(revision: Revision, *, commits: bool) -> GroupMembers:
    """Return a group of one member of *revision*, which has polled all, and another one."""
    group = GroupMembers()
    group.update((0, 1), 0.0)
    group.join(1, revision, 0.0)
    for _ in range(2):
        partition = group.next_partition(1)
        assert partition is not None
        group.on_polled(partition, 9)
        if commits:
            group.on_committed(partition, 9)
    group.join(2, revision, 0.0)
    return group


def test_a_partition_waits_for_its_commit_or_half_a_minute() -> None:
    assert grown(Revision.R2C, commits=True).partitions_of(2) == (1,)
    group = grown(Revision.R2C, commits=False)
    assert (group.partitions_of(1), group.partitions_of(2)) == ((0,), ())
    before = group.generation
    group.on_committed(1, 8)
    assert group.partitions_of(2) == ()
    group.update((0, 1), PATIENCE_SECONDS - 1)
    assert group.partitions_of(2) == ()
    group.update((0, 1), PATIENCE_SECONDS)
    assert group.partitions_of(2) == (1,)
    assert group.generation > before


def test_older_clients_lose_a_partition_at_once() -> None:
    group = grown(Revision.R1, commits=False)
    assert (group.partitions_of(1), group.partitions_of(2)) == ((0,), (1,))


def test_a_partition_on_its_way_is_free_once_its_owner_leaves() -> None:
    group = grown(Revision.R2C, commits=False)
    group.leave(1, 1.0)
    assert group.partitions_of(2) == (0, 1)
    group.leave(2, 1.0)
    assert group.members == {}
