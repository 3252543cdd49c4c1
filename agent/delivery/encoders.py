"""Encoders of sources: packs, blocks, full records or pairs, as dialect and operator ask for."""

from functools import cached_property
from typing import Any, Final, Literal

from agent.config.output import OutputTable, RecordsSetting
from agent.delivery.source_steps import make_source_events
from agent.events.encoder import EventEncoder, EventOutput
from agent.events.event import SourceAbout
from agent.events.filtered_lines import FilteredLinesEncoder
from agent.events.forms import EventForm, FullForm, LeanForm, PairForm
from agent.events.processors.counters import RuleCounters
from agent.events.source_events import SourceEvents
from agent.sources.file_log import FileLog
from agent.sources.paths import printable_path
from agent.sources.readable import Readable
from agent.sources.source import Source
from logdrive.host.clock import Clock
from logdrive.packs.pack import PackCodec
from logdrive.records.blocks import BlockEncoder, Encoder
from logdrive.records.dropped import DroppedForm
from logdrive.records.flatten import FILE, HOST, ORIGIN, flatten_labels
from logdrive.records.full_packs import FullPackEncoder
from logdrive.records.full_records import FullEncoder
from logdrive.records.pack_sizes import PackSizes
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
    return Packing(_CODECS[settings.compression], settings.level, PackSizes())


class Encoders:
    """Makes the encoder of each source. *form* changes between connections, with the dialect."""

    def __init__(
        self,
        agent: str,
        host: str,
        clock: Clock,
        packing: Packing,
        file_log: FileLog,
        rule_counters: RuleCounters | None = None,
    ) -> None:
        self._file_log = file_log
        self.form: EncodingForm = "block"  # what lines become now
        # what processors did, of all inputs and connections
        self.rule_counters = rule_counters if rule_counters is not None else RuleCounters()
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

    def keep_packs_small(self) -> None:
        """Make only packs that are records however their text compresses."""
        if self._packing.sizes is not None:
            self._packing.sizes.on_overflow()

    def set_form(self, form: EncodingForm) -> bool:
        """Make *form* from now on; return whether unacknowledged runs must be re-encoded."""
        before, self.form = self.form, form
        return not self.carries(before)

    def carries(self, form: EncodingForm) -> bool:
        """Return whether runs of *form* can be sent where lines become `form` now."""
        carried = _JSON + _PACKS if self.form in _PACKS else _JSON if self.form in _JSON else ()
        return form == self.form or form in carried

    def encoder_for(self, source: Source) -> Encoder:
        """Return an encoder for what is read of *source* on the connection there is."""
        readable = source.generation
        # A source without bytes encodes nothing: any encoder does.
        if readable is None:
            return self._block
        if readable.settings.needs_events or source.holds_events:
            return self._event_encoder(source, readable)
        if self.form == "packed":
            return self._packed
        if self.form == "block":
            return self._block

        path, origin = printable_path(readable.place.path), source.origin.hex
        if self.form == "pairs":
            settings = readable.settings
            labels = flatten_labels(settings.fields, settings.tags)
            return PairEncoder(labels, self._host, path, origin)
        encoder = FullEncoder(self._common_of(readable), path, origin, self._clock.now_ms)
        return FullPackEncoder(encoder, self._packing) if self.form == "full_packs" else encoder

    def _event_encoder(self, source: Source, readable: Readable) -> Encoder:
        """Return an encoder that makes events, or does as if it had."""
        events = self._events_of(source, readable)
        encoder = EventEncoder(events, readable.cutter, self._output_of(source, readable))
        if self.form == "packed" and (filters := events.line_filters):
            return FilteredLinesEncoder(filters, self._packing, encoder)
        return encoder

    def _common_of(self, readable: Readable) -> dict[str, Any]:
        """Return what all full records of one source have in common."""
        settings = readable.settings
        labels: dict[str, Any] = {"fields": settings.fields, "tags": settings.tags}
        common = self._common | {key: value for key, value in labels.items() if value}
        return self._metadata | common if self.form == "beats" else common

    def _events_of(self, source: Source, readable: Readable) -> SourceEvents:
        """Return what is done with the events of *source*, made when it is first read."""
        events = source.events
        # another table once the configuration was loaded again
        if events is None or events.settings is not readable.settings:
            path = printable_path(readable.place.path)
            about = SourceAbout(path, self._host, self._agent)
            source.events = events = make_source_events(
                readable,
                about,
                lambda name: self._file_log.info("format recognised", path, format=name),
                self.rule_counters,
                self._clock.monotonic,
            )
        return events

    def _output_of(self, source: Source, readable: Readable) -> EventOutput:
        """Return how events of *source* travel on this connection."""
        path, origin = printable_path(readable.place.path), source.origin.hex
        form: EventForm
        if self.form in ("packed", "block"):
            form = LeanForm()
        elif self.form == "pairs":
            settings = readable.settings
            same = [(HOST, self._host), (FILE, path), (ORIGIN, origin)]
            form = PairForm([*same, *flatten_labels(settings.fields, settings.tags)])
        else:
            form = FullForm(self._common_of(readable), path, origin)
        packs = self.form in _PACKS
        dropped: DroppedForm = "pack" if packs else "block" if self.form in _JSON else "nothing"
        return EventOutput(
            form, self._packing if packs else None, dropped, text=self.form == "packed"
        )
