"""What the Iggy face itself keeps beside events: the records of its journal.

Streams, topics and partitions are scopes, streams and segments of the store's one catalog
(`logdrive.store.streams`), which all faces share. Here is only what the catalog does not know: the
numbers by which Iggy's clients name things, names that the catalog does not allow, options of
topics, consumer groups, users and their tokens.

The state is kept by a journal (`logdrive.store.journal`) in the segment `_system/_iggy/0.#epoch.0`.
Offsets of consumers are in one of their own (`offsets`).
"""

from collections.abc import Sequence
from typing import Final

import msgspec

from logdrive.store.streams.names import IGGY, SYSTEM
from logdrive.wire.iggy.options import TopicOptions
from logdrive.wire.iggy.permissions import Permissions
from logdrive.wire.pravega.names import segment_name

SEGMENT: Final = segment_name(SYSTEM, IGGY, 0)
"""The segment that has the journal."""


class RegisteredIggyStream(msgspec.Struct, frozen=True, omit_defaults=True):
    """An Iggy stream, which is a scope of the catalog.

    *created_us* is 0 for one that another face made. *last_topic* is the highest number that the
    server itself gave to a topic.
    """

    id: int
    name: str
    created_us: int = 0
    last_topic: int = 0


class RegisteredTopic(msgspec.Struct, frozen=True, omit_defaults=True):
    """A topic, which is a stream of the catalog.

    *partitions* has the ids of their segments in the order of their numbers. *seen* is the
    catalog's number of the next new segment, up to which it was looked for partitions; segments
    below that are left out on purpose. *born_ms* is when the catalog's stream began, so that
    another one that was made under the same name is known as such; None until it was created.
    *last_group* is the highest number that the server itself gave to a group.
    """

    id: int
    name: str
    created_us: int = 0
    options: TopicOptions = TopicOptions()
    partitions: tuple[int, ...] = ()
    seen: int = 0
    born_ms: int | None = None
    last_group: int = 0


class RegisteredUser(msgspec.Struct, frozen=True, omit_defaults=True):
    """A user. *password* is a hash in its text form; None: as the users file or the start says.

    *configured*: the name is one of the users file, whose grants are the permissions.
    """

    id: int
    name: str
    created_us: int
    password: str | None = None
    active: bool = True
    permissions: Permissions | None = None
    configured: bool = False


class RegisteredToken(msgspec.Struct, frozen=True, omit_defaults=True):
    """A personal access token, known by the SHA-256 of its text, in hex; None: no expiry."""

    digest: str
    expires_us: int | None = None


class CountersPut(msgspec.Struct, frozen=True, tag="counters"):
    """The highest numbers that the server itself gave to a stream, and to a user."""

    last_stream: int = 0
    last_user: int = 0


class IggyStreamPut(msgspec.Struct, frozen=True, tag="stream"):
    """The new state of a stream; None if it is gone, with what is known of its topics."""

    scope: str
    now: RegisteredIggyStream | None


class TopicPut(msgspec.Struct, frozen=True, tag="topic"):
    """The new state of a topic; None if it is gone, with its groups."""

    scope: str
    stream: str
    now: RegisteredTopic | None


class ConsumerGroupPut(msgspec.Struct, frozen=True, tag="group"):
    """The name of a consumer group; None if it is gone."""

    scope: str
    stream: str
    group: int
    name: str | None


class UserPut(msgspec.Struct, frozen=True, tag="user"):
    """The new state of a user; None if it is gone, with its tokens."""

    user: int
    now: RegisteredUser | None


class PersonalTokenPut(msgspec.Struct, frozen=True, tag="token"):
    """The new state of a user's token; None if it is gone."""

    user: int
    name: str
    now: RegisteredToken | None


IggyPut = CountersPut | IggyStreamPut | TopicPut | ConsumerGroupPut | UserPut | PersonalTokenPut


class IggyRecord(msgspec.Struct, frozen=True):
    """One record of the journal."""

    puts: tuple[IggyPut, ...]


_decoder: Final = msgspec.json.Decoder(IggyRecord)


def decode_iggy_puts(record: bytes) -> Sequence[IggyPut]:
    """Return the puts of one record of the journal. Raises `msgspec.DecodeError`."""
    return _decoder.decode(record).puts
