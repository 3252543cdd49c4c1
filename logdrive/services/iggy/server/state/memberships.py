"""Which connections are in which consumer groups. A membership ends with its connection."""

from collections.abc import Callable, Iterator
from functools import partial

from logdrive.services.iggy.server.state.rebalancing import GroupMembers
from logdrive.services.iggy.server.state.topology import FoundTopic
from logdrive.wire.iggy.revision import Revision

_Key = tuple[str, str, int]
"""A group: the scope and the stream of its topic in the catalog, and its number."""


class Memberships:
    """The members of all groups of one store, in memory; *monotonic* returns seconds."""

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._groups: dict[_Key, GroupMembers] = {}
        # by client: its groups, in the order in which it joined them
        self._joined: dict[int, dict[_Key, None]] = {}
        # by client: what ends its memberships
        self._endings: dict[int, Callable[[], None]] = {}

    def group(self, topic: FoundTopic, group: int) -> GroupMembers:
        """Return the members of a group of *topic*, with its partitions shared out among them."""
        members = self._groups.get((*topic.key, group)) or GroupMembers()
        members.update(topic.indices, self._monotonic())
        return members

    def join(self, topic: FoundTopic, group: int, client: int, revision: Revision) -> None:
        """Make a connection a member of a group."""
        key = (*topic.key, group)
        members = self._groups.setdefault(key, GroupMembers())
        now = self._monotonic()
        members.update(topic.indices, now)
        members.join(client, revision, now)
        self._joined.setdefault(client, {})[key] = None

    def leave(self, topic: FoundTopic, group: int, client: int) -> bool:
        """End a membership; return whether there was one."""
        return self._leave((*topic.key, group), client)

    def ending_of(self, client: int) -> Callable[[], None]:
        """Return the function to be called when the connection ends; the same one until then."""
        return self._endings.setdefault(client, partial(self.leave_all, client))

    def leave_all(self, client: int) -> None:
        """End all memberships of a connection that is closed, or whose user logs out."""
        self._endings.pop(client, None)
        for key in list(self._joined.get(client, ())):
            self._leave(key, client)

    def leave_topic(self, topic: FoundTopic, client: int) -> None:
        """End the memberships of a connection in the groups of *topic*, if it has any."""
        for key in list(self._joined.get(client, ())):
            if key[:2] == topic.key:
                self._leave(key, client)

    def _leave(self, key: _Key, client: int) -> bool:
        if (members := self._groups.get(key)) is None or not members.leave(
            client, self._monotonic()
        ):
            return False
        if not members.members:
            del self._groups[key]
        del self._joined[client][key]
        if not self._joined[client]:
            del self._joined[client]
        return True

    def of_client(self, client: int) -> Iterator[_Key]:
        """Yield the groups of a connection: scope and stream of the topic, and number."""
        yield from self._joined.get(client, ())

    def drop(self, scope: str, stream: str | None = None, group: int | None = None) -> None:
        """Forget a group that is deleted, or all of a topic, or of all topics of a stream."""
        for key in list(self._groups):
            if (
                key[0] == scope
                and (stream is None or key[1] == stream)
                and (group is None or key[2] == group)
            ):
                for client in list(self._groups[key].members):
                    self._leave(key, client)
