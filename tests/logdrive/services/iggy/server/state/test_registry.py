"""The registry's journal: what was committed is there after a kill, and the journal stays short."""

from random import Random

from logdrive.services.iggy.server.state.records import (
    SEGMENT,
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
from logdrive.services.iggy.server.state.registry import IggyRegistry
from logdrive.services.iggy.server.state.tables import IggyState
from logdrive.store.engine import Store
from logdrive.wire.iggy.limits import NEVER
from logdrive.wire.iggy.options import Durability, IggyCompression, TopicOptions
from logdrive.wire.iggy.permissions import ALL_PERMISSIONS, Permissions, StreamPermissions
from tests.support.registry_lives import check_lives
from tests.support.virtual_time import run

OPTIONS = TopicOptions(
    compression=IggyCompression.GZIP, expiry_us=NEVER, durability=Durability.PERSISTED
)
PERMISSIONS = (None, ALL_PERMISSIONS, Permissions(streams=(StreamPermissions(3, True),)))


def random_put(random: Random) -> IggyPut:
    """Return a change; things with one key have one number and name, as those in use have."""
    gone = random.random() < 0.3
    number = random.randrange(3)
    scope, stream = f"scope-{number}", f"_iggy-{random.randrange(3)}"
    match random.randrange(6):
        case 0:
            made = RegisteredIggyStream(number + 1, f"é {number}", random.randrange(99), 3)
            return IggyStreamPut(scope, None if gone else made)
        case 1:
            id_ = int(stream[-1]) + 7
            topic = RegisteredTopic(id_, f"t{id_}", 5, OPTIONS, (1, 1 << 32), 3, 17, 2)
            return TopicPut(scope, stream, None if gone else topic)
        case 2:
            return ConsumerGroupPut(scope, stream, random.randrange(1, 4), None if gone else "g")
        case 3:
            user = RegisteredUser(number, f"u{number}", 1, "hash", gone, random.choice(PERMISSIONS))
            return UserPut(number, None if gone else user)
        case 4:
            token = RegisteredToken(f"{number}{stream}", random.choice((None, 5)))
            return PersonalTokenPut(number, stream, None if gone else token)
        case _:
            return CountersPut(random.randrange(9), random.randrange(9))


def known(state: IggyState) -> object:
    streams = {
        scope: (
            owner.stream,
            dict(owner.topics),
            {name: groups for name, groups in owner.groups.items() if groups},
            {topic.id: owner.topics.key_of(topic.id) for topic in owner.topics.values()},
        )
        for scope, owner in state.streams.items()
    }
    names = {owner.name: state.streams.key_of(owner.name) for owner in state.streams.values()}
    return (
        state.counters,
        streams,
        names,
        state.users,
        state.user_ids,
        state.tokens,
        dict(state.token_owners),
    )


def test_what_was_committed_is_there_after_a_kill_and_the_journal_stays_short() -> None:
    def make(store: Store, slack: int) -> IggyRegistry:
        return IggyRegistry(store, slack=slack)

    run(check_lives(SEGMENT, make, random_put, known))


def test_what_is_gone_takes_along_what_belongs_to_it() -> None:
    state = IggyState()
    state.apply_puts(
        [
            IggyStreamPut("s", RegisteredIggyStream(1, "stream")),
            TopicPut("s", "t", RegisteredTopic(1, "topic")),
            ConsumerGroupPut("s", "t", 1, "group"),
            UserPut(2, RegisteredUser(2, "eve", 0)),
            PersonalTokenPut(2, "tool", RegisteredToken("ab")),
        ]
    )
    assert state.groups("s", "t") == {1: "group"}
    state.apply_puts([IggyStreamPut("s", RegisteredIggyStream(1, "renamed"))])
    assert state.streams.key_of("stream") is None
    assert state.topic("s", "t") is not None
    state.apply_puts([TopicPut("s", "t", None), UserPut(2, None)])
    assert state.groups("s", "t") == {}
    assert (state.tokens, state.token_owners, state.user("eve")) == ({}, {}, None)
    state.apply_puts([IggyStreamPut("s", None)])
    assert state.streams.key_of("renamed") is None
    assert list(state.puts_for_all()) == [CountersPut()]
