"""Encoders of sources: blocks, full records or pairs, as the dialect or the operator asks for."""

from functools import cached_property
from typing import Any, Final, Literal

from agent.sources.paths import printable_path
from agent.sources.source import Source
from logdrive.host.clock import Clock
from logdrive.records.blocks import BlockEncoder, Encoder
from logdrive.records.flatten import flatten_labels
from logdrive.records.full_records import FullEncoder
from logdrive.records.pairs import PairEncoder

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
        self._agent = agent

    @cached_property
    def _common(self) -> dict[str, Any]:
        """What all full records have in common."""
        about = {"id": self._agent, "type": "logdrive", "version": self._version}
        return {"host": {"name": self._host}, "agent": about}

    @cached_property
    def _metadata(self) -> dict[str, Any]:
        """What Beats' records have, too."""
        return {"@metadata": {"beat": "logdrive", "type": "_doc", "version": self._version}}

    @cached_property
    def _version(self) -> str:
        """The version of this agent."""
        # not sooner: blocks don't have it, and the import takes 1.3 MiB
        from importlib.metadata import version

        return version("logdrive")

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
