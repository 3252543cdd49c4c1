"""Routing: the sink of each source.

A route depends only on what can't change during a generation (rule D7).
"""

from dataclasses import dataclass
from typing import Any

from logdrive.services.sink import Sink


@dataclass(frozen=True, slots=True)
class RouteKey:
    """What a route may depend on. The path is no part of it: files are renamed."""

    identity: str  # of the client
    listener: str  # name of our listener
    fields: dict[str, Any]  # of the agent's input
    tags: tuple[str, ...]  # of the agent's input


class Router:
    """The routes of one receiver: all sources go to the one configured stream."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    def sink_for(self, key: RouteKey) -> Sink:
        """Return the sink of a source with *key*; within its stream, the source id is the routing
        key (rule D6).
        """
        return self._sink
