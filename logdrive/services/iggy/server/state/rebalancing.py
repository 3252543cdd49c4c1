"""Which member of a consumer group polls which partition.

Theory of operation. When members or partitions change, the partitions are shared out anew, as
evenly as possible, and with as few of them moved as possible. A partition that moves away from a
member which has polled messages of it, but not committed them, waits: its owner gets no more of it,
and the next owner nothing yet, until the commit, or for `PATIENCE_SECONDS`. So messages are rarely
polled twice. The clients of revisions before R2C do not know of that: from them a partition is
taken at once.

    free     -> owned    the group has a member
    owned    -> moving   another owner is due, and something polled is not committed
    owned    -> owned    another owner is due, and nothing is; or the owner has left
    moving   -> owned    committed, or the time is over, or the owner has left
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from logdrive.wire.iggy.revision import Revision

PATIENCE_SECONDS: Final = 30.0
"""Seconds for which a partition waits until its owner has committed what it has polled."""


@dataclass(slots=True, eq=False)
class GroupMember:
    """A connection in a group."""

    client: int
    revision: Revision
    # the partition that was polled last; None: none yet
    current: int | None = None
    # the generation of the assignment that an R3 client asked for last
    synced: int = 0


@dataclass(frozen=True, slots=True)
class _Move:
    """A partition on its way to the member *to*; *since* is monotonic."""

    to: int
    since: float


@dataclass(slots=True, eq=False)
class GroupMembers:
    """The members of one group, and who has which partition.

    *now* is the monotonic time in seconds wherever it is an argument.
    """

    members: dict[int, GroupMember] = field(default_factory=dict)
    generation: int = 0
    # by partition: the client that polls it
    _owners: dict[int, int] = field(default_factory=dict)
    _moving: dict[int, _Move] = field(default_factory=dict)
    # by partition: the last offset that was polled and not committed
    _uncommitted: dict[int, int] = field(default_factory=dict)
    _partitions: tuple[int, ...] = ()

    def join(self, client: int, revision: Revision, now: float) -> None:
        """Make *client* a member, if it is not."""
        if client not in self.members:
            self.members[client] = GroupMember(client, revision)
            self._rebalance(now)

    def leave(self, client: int, now: float) -> bool:
        """End the membership of *client*; return whether it was a member."""
        if self.members.pop(client, None) is None:
            return False
        for partition in [one for one, owner in self._owners.items() if owner == client]:
            del self._owners[partition]
            self._uncommitted.pop(partition, None)
        self._rebalance(now)
        return True

    def update(self, partitions: Sequence[int], now: float) -> None:
        """Set the *partitions* of the topic, and end what has waited long enough."""
        if self._partitions != (existing := tuple(partitions)):
            self._partitions = existing
            for partition in self._owners.keys() - set(existing):
                del self._owners[partition]
                self._moving.pop(partition, None)
                self._uncommitted.pop(partition, None)
            self._rebalance(now)
        for partition, move in list(self._moving.items()):
            if now - move.since >= PATIENCE_SECONDS:
                self._finish_move(partition)

    def partitions_of(self, client: int) -> tuple[int, ...]:
        """Return the partitions that *client* may poll."""
        return tuple(
            partition
            for partition in self._partitions
            if self._owners.get(partition) == client and partition not in self._moving
        )

    def next_partition(self, client: int) -> int | None:
        """Return the partition that *client* polls next, each in turn; None: it has none."""
        member, owned = self.members[client], self.partitions_of(client)
        if not owned:
            return None
        last = -1 if member.current is None else member.current
        member.current = next((partition for partition in owned if partition > last), owned[0])
        return member.current

    def on_polled(self, partition: int, last_offset: int) -> None:
        """Note that messages up to *last_offset* were polled, and not committed."""
        self._uncommitted[partition] = last_offset

    def on_committed(self, partition: int, offset: int) -> None:
        """Note that *offset* is committed: what waited for it moves."""
        if (polled := self._uncommitted.get(partition)) is None or polled > offset:
            return
        del self._uncommitted[partition]
        if partition in self._moving:
            self._finish_move(partition)

    # ---------------------------------------------------------------------------------------------

    def _finish_move(self, partition: int) -> None:
        move = self._moving.pop(partition)
        self._uncommitted.pop(partition, None)
        self._owners[partition] = move.to
        self.generation += 1

    def _rebalance(self, now: float) -> None:
        due = {partition: move.to for partition, move in self._moving.items()}
        target = shared_out(self._partitions, list(self.members), {**self._owners, **due})
        changed = False
        for partition in self._partitions:
            owner, to = self._owners.get(partition), target.get(partition)
            if to is None:
                continue
            if to == owner:
                changed |= self._moving.pop(partition, None) is not None
            elif owner is not None and self._waits_for(partition, owner):
                since = self._moving[partition].since if partition in self._moving else now
                self._moving[partition] = _Move(to, since)
                changed = True
            else:
                self._moving.pop(partition, None)
                self._uncommitted.pop(partition, None)
                self._owners[partition] = to
                changed = True
        self.generation += changed

    def _waits_for(self, partition: int, owner: int) -> bool:
        return partition in self._uncommitted and self.members[owner].revision >= Revision.R2C


def shared_out(
    partitions: Iterable[int], members: Sequence[int], owners: Mapping[int, int]
) -> dict[int, int]:
    """Return the member that each partition is due to: evenly, and as it is where possible.

    *owners* are the members that have partitions now; others than *members* lose them.
    """
    if not members:
        return {}
    ordered = sorted(partitions)
    least, more = divmod(len(ordered), len(members))
    by_member: dict[int, list[int]] = {member: [] for member in members}
    free: list[int] = []
    for partition in ordered:
        owner = owners.get(partition)
        if owner in by_member:
            by_member[owner].append(partition)
        else:
            free.append(partition)
    # those that have most keep the odd ones
    shares = {
        member: least + (rank < more)
        for rank, member in enumerate(sorted(members, key=lambda one: -len(by_member[one])))
    }
    for member, share in shares.items():
        free += by_member[member][share:]
        del by_member[member][share:]
    free.sort()
    for member in members:
        while len(by_member[member]) < shares[member]:
            by_member[member].append(free.pop(0))
    return {partition: member for member, owned in by_member.items() for partition in owned}
