"""Layouts of consumer offsets: requests 120 to 122 and their reply."""

from typing import Final

from logdrive.wire.iggy import requests
from logdrive.wire.iggy.payloads.fields import BOOL, U64
from logdrive.wire.iggy.payloads.naming import (
    CONSUMER,
    IDENTIFIER,
    OPTIONAL_PARTITION,
    PARTITION,
)
from logdrive.wire.iggy.payloads.shapes import Shape, at
from logdrive.wire.iggy.replies import ConsumerOffset
from logdrive.wire.iggy.revision import Revision

_WHERE: Final = (
    at("consumer", CONSUMER),
    at("stream", IDENTIFIER),
    at("topic", IDENTIFIER),
    at("partition", OPTIONAL_PARTITION),
)
_QUORUM: Final = at("quorum", BOOL, first=Revision.R3)

OFFSET_REQUESTS: Final = (
    Shape(requests.GetConsumerOffset, *_WHERE),
    Shape(requests.StoreConsumerOffset, *_WHERE, at("offset", U64), _QUORUM),
    Shape(requests.DeleteConsumerOffset, *_WHERE, _QUORUM),
)

OFFSET: Final = Shape(
    ConsumerOffset,
    at("partition", PARTITION),
    at("current", U64),
    at("stored", U64),
)
