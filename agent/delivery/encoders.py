"""Encoders of sources: packs, blocks, full records or pairs, as dialect and operator ask for."""

from functools import cached_property
from typing import Any, Final, Literal

from agent.config.output import OutputTable, RecordsSetting
from agent.sources.paths import printable_path
from agent.sources.source import Source
from logdrive.host.clock import Clock
from logdrive.packs.pack import PackCodec
from logdrive.records.blocks import BlockEncoder, Encoder
from logdrive.records.flatten import flatten_labels
from logdrive.records.full_packs import FullPackEncoder
from logdrive.records.full_records import FullEncoder
from logdrive.records.packed import PackEncoder
from logdrive.records.pairs import PairEncoder
from logdrive.records.run_pack import Packing

EncodingForm = Literal["packed", "full_packs", "block", "full", "beats", "pairs"]
"""What lines become: packs of text, packs of full records, blocks, full records, full records with
Beats' `@metadata`, or pairs.
"""

_JSON: Final[tuple[EncodingForm, ...]] = ("block", "full")
"""Forms that `logdrive/1` carries, even mixed on one connection."""
_PACKS: Final[tuple[EncodingForm, ...]] = ("packed", "full_packs")
"""Forms that it carries beside these where the receiver takes packs."""

_CODECS: Final = {
    "zlib": PackCodec.DEFLATE,
    "zstd": PackCodec.ZSTD,
    "none": PackCodec.STORED,
}
"""Codecs of packs, as the configuration names them."""


def native_form(records: RecordsSetting, *, packs: bool) -> EncodingForm:
    """Return the form for `logdrive/1`, where *records* is configured; *packs*: whether it may."""
    if records == "packed":
        return "packed" if packs else "block"
    return "full_packs" if records == "full" and packs else records


def packing_of(settings: OutputTable) -> Packing:
    """Return how the [output] table has packs compressed."""
    return Packing(_CODECS[settings.compression], settings.level)


class Encoders:
    """Makes the encoder of each source. *form* changes between connections, with the dialect."""

    def __init__(self, agent: str, host: str, clock: Clock, packing: Packing) -> None:
        self.form: EncodingForm = "block"  # what lines become now
        self._packing = packing
        # one for all sources: neither a pack of text nor a block names any
        self._packed, self._block = PackEncoder(packing), BlockEncoder()
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
        carried = _JSON + _PACKS if form in _PACKS else _JSON if form in _JSON else ()
        return before != form and before not in carried

    def encoder_for(self, source: Source) -> Encoder:
        """Return an encoder for what is read of *source* on the connection there is."""
        if self.form == "packed":
            return self._packed
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
        encoder = FullEncoder(common, path, origin, self._clock.now_ms)
        return FullPackEncoder(encoder, self._packing) if self.form == "full_packs" else encoder
