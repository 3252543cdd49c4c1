"""Which encoder a source gets: blocks, or full records where the peer or the operator wants these."""

from importlib.metadata import version
from typing import Any

from agent.checkpoint import shown
from agent.encoder import BlockEncoder, Encoder
from agent.full import FullEncoder
from agent.source import Source
from logdrive.clock import Clock


class Encoders:
    """*full* may change between connections, with the dialect; what was read before stays as it is."""

    def __init__(self, agent: str, host: str, clock: Clock) -> None:
        self.full = False
        self._block = BlockEncoder()
        self._clock = clock
        self._common = {"host": {"name": host}, "agent": {"id": agent, "type": "logdrive", "version": version("logdrive")}}

    def of(self, source: Source) -> Encoder:
        """Return the encoder for *source* on the connection there is."""
        if not self.full or source.generation is None:
            return self._block
        place, settings = source.generation.place, source.generation.settings
        labels: dict[str, Any] = {"fields": settings.fields, "tags": settings.tags}
        common = self._common | {key: value for key, value in labels.items() if value}
        return FullEncoder(common, shown(place.path), source.origin.hex, self._clock.now_ms)
