"""The state that all changes of the Iggy face so far lead to, with the ways to look things up."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from logdrive.services.iggy.server.state.records import (
    ConsumerGroupPut,
    CountersPut,
    IggyPut,
    IggyStreamPut,
    PersonalTokenPut,
    RegisteredIggyStream,
    RegisteredToken,
    RegisteredTopic,
    RegisteredUser,
    TopicPut,
    UserPut,
)
from logdrive.wire.iggy.identifiers import Identifier


class _Numbered(Protocol):
    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...


_Entry = TypeVar("_Entry", bound=_Numbered)


class NumberedEntries(dict[str, _Entry]):
    """Streams or topics by their name in the catalog, with indexes by Iggy's number and name."""

    def __init__(self) -> None:
        super().__init__()
        self._by_id: dict[int, str] = {}
        self._by_name: dict[str, str] = {}

    def put(self, key: str, now: _Entry | None) -> None:
        """Set what *key* is; None: it is gone."""
        if (before := self.pop(key, None)) is not None:
            del self._by_id[before.id], self._by_name[before.name]
        if now is not None:
            self[key] = now
            self._by_id[now.id] = key
            self._by_name[now.name] = key

    def key_of(self, identifier: Identifier) -> str | None:
        """Return the key of what has this number or name; None if nothing has."""
        if isinstance(identifier, int):
            return self._by_id.get(identifier)
        return self._by_name.get(identifier)

    def free_id(self, last: int) -> int:
        """Return the first number above *last* that nothing has."""
        while (last := last + 1) in self._by_id:
            pass
        return last


@dataclass(slots=True)
class IggyStreamState:
    """A stream with its topics, by their names in the catalog."""

    stream: RegisteredIggyStream
    topics: NumberedEntries[RegisteredTopic] = field(default_factory=NumberedEntries)
    # by topic's name in the catalog, then number: names
    groups: dict[str, dict[int, str]] = field(default_factory=dict)

    @property
    def id(self) -> int:
        """The stream's number."""
        return self.stream.id

    @property
    def name(self) -> str:
        """The stream's name."""
        return self.stream.name


class IggyState:
    """The state that all changes so far lead to."""

    def __init__(self) -> None:
        self.counters = CountersPut()
        # by scope
        self.streams: NumberedEntries[IggyStreamState] = NumberedEntries()
        self.users: dict[int, RegisteredUser] = {}
        self.user_ids: dict[str, int] = {}
        # by user, then name
        self.tokens: dict[int, dict[str, RegisteredToken]] = {}
        # users and names by digest
        self.token_owners: dict[str, tuple[int, str]] = {}

    def apply_puts(self, puts: Sequence[IggyPut]) -> None:
        """Apply one change."""
        for put in puts:
            match put:
                case CountersPut():
                    self.counters = put
                case IggyStreamPut():
                    self._put_stream(put)
                case TopicPut():
                    self._put_topic(put)
                case ConsumerGroupPut():
                    self._put_group(put)
                case UserPut():
                    self._put_user(put)
                case PersonalTokenPut():
                    self._put_token(put.user, put.name, put.now)

    def _put_stream(self, put: IggyStreamPut) -> None:
        if put.now is None:
            self.streams.put(put.scope, None)
            return
        before = self.streams.get(put.scope)
        now = IggyStreamState(put.now)
        if before is not None:
            now.topics, now.groups = before.topics, before.groups
        self.streams.put(put.scope, now)

    def _put_topic(self, put: TopicPut) -> None:
        if (owner := self.streams.get(put.scope)) is None:
            return
        owner.topics.put(put.stream, put.now)
        if put.now is None:
            owner.groups.pop(put.stream, None)

    def _put_group(self, put: ConsumerGroupPut) -> None:
        if (owner := self.streams.get(put.scope)) is None:
            return
        if put.name is not None:
            owner.groups.setdefault(put.stream, {})[put.group] = put.name
        elif (groups := owner.groups.get(put.stream)) is not None:
            groups.pop(put.group, None)

    def _put_user(self, put: UserPut) -> None:
        if (before := self.users.pop(put.user, None)) is not None:
            self.user_ids.pop(before.name, None)
        if put.now is None:
            for name in list(self.tokens.get(put.user, ())):
                self._put_token(put.user, name, None)
        else:
            self.users[put.user] = put.now
            self.user_ids[put.now.name] = put.user

    def _put_token(self, user: int, name: str, now: RegisteredToken | None) -> None:
        tokens = self.tokens.setdefault(user, {})
        if (before := tokens.pop(name, None)) is not None:
            self.token_owners.pop(before.digest, None)
        if now is not None:
            tokens[name] = now
            self.token_owners[now.digest] = (user, name)
        if not tokens:
            del self.tokens[user]

    def topic(self, scope: str, stream: str) -> RegisteredTopic | None:
        """Return what is known of the catalog's stream; None if nothing is."""
        owner = self.streams.get(scope)
        return owner.topics.get(stream) if owner is not None else None

    def groups(self, scope: str, stream: str) -> dict[int, str]:
        """Return the names of a topic's groups by number."""
        owner = self.streams.get(scope)
        return owner.groups.get(stream, {}) if owner is not None else {}

    def user(self, identifier: Identifier) -> RegisteredUser | None:
        """Return a user by number or name; None if there is none."""
        id_ = self.user_ids.get(identifier) if isinstance(identifier, str) else identifier
        return self.users.get(id_) if id_ is not None else None

    def puts_for_all(self) -> Iterator[IggyPut]:
        """Yield the puts that make this state from nothing."""
        yield self.counters
        for scope, owner in self.streams.items():
            yield IggyStreamPut(scope, owner.stream)
            for name, topic in owner.topics.items():
                yield TopicPut(scope, name, topic)
            for name, groups in owner.groups.items():
                for id_, group in groups.items():
                    yield ConsumerGroupPut(scope, name, id_, group)
        for user in self.users.values():
            yield UserPut(user.id, user)
        for id_, tokens in self.tokens.items():
            for name, token in tokens.items():
                yield PersonalTokenPut(id_, name, token)
