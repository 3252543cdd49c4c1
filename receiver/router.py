"""Where a source's batches go.

A route sees only what can't change in a generation's life (rule D7).
"""

from dataclasses import dataclass
from typing import Any

from logdrive.services.sink import Sink


@dataclass(frozen=True, slots=True)
class RouteKey:
    """What a route may depend on: who speaks, where it was heard, and the input's fields and tags.

    Never the path.
    """

    identity: str
    listener: str
    fields: dict[str, Any]
    tags: tuple[str, ...]


class Router:
    """The routes of one receiver: every source goes to the one stream that the configuration
    names.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def sink_for(self, traits: RouteKey) -> Sink:
        """Return the stream of a source with *traits*; its segment there is the source id's, as
        routing key (rule D6).
        """
        return self._sink
