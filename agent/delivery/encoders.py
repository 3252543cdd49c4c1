"""Encoders of sources: blocks, full records or pairs, as the dialect or the operator asks for."""

from importlib.metadata import version
from typing import Any, Final, Literal

from agent.records.blocks import BlockEncoder, Encoder
from agent.records.flatten import flatten_labels
from agent.records.full_records import FullEncoder
from agent.records.pairs import PairEncoder
from agent.sources.paths import printable_path
from agent.sources.source import Source
from logdrive.host.clock import Clock

EncodingForm = Literal["block", "full", "beats", "pairs"]
"""What lines become: blocks, full records, full records with Beats' `@metadata`, or pairs."""

_NATIVE: Final = ("block", "full")
"""Forms that `logdrive/1` carries, even mixed on one connection."""


class Encoders:
    """Makes the encoder of each source. *form* changes between connections, with the dialect."""

    def __init__(self, agent: str, host: str, clock: Clock) -> None:
        self.form: EncodingForm = "block"  # what lines become now
        self._block = BlockEncoder()  # one for all sources: a block names none
        self._clock = clock
        self._host = host
        own_version = version("logdrive")
        # Fields that all full records have in common.
        self._common = {
            "host": {"name": host},
            "agent": {"id": agent, "type": "logdrive", "version": own_version},
        }
        # What Logstash and its outputs expect of a Beat.
        self._metadata = {"@metadata": {"beat": "logdrive", "type": "_doc", "version": own_version}}

    def set_form(self, form: EncodingForm) -> bool:
        """Make *form* from now on; return whether unacknowledged runs must be re-encoded."""
        before, self.form = self.form, form
        return before != form and not (before in _NATIVE and form in _NATIVE)

    def encoder_for(self, source: Source) -> Encoder:
        """Return an encoder for what is read of *source* on the connection there is."""
        # A source without bytes encodes nothing: any encoder does.
        if self.form == "block" or source.generation is None:
            return self._block

        place, settings = source.generation.place, source.generation.settings
        path, origin = printable_path(place.path), source.origin.hex
        if self.form == "pairs":
            return PairEncoder(
                flatten_labels(settings.fields, settings.tags), self._host, path, origin
            )

        labels: dict[str, Any] = {"fields": settings.fields, "tags": settings.tags}
        common = self._common | {key: value for key, value in labels.items() if value}
        if self.form == "beats":
            common = self._metadata | common
        return FullEncoder(common, path, origin, self._clock.now_ms)
