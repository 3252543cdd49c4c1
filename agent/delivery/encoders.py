"""Which encoder a source gets: blocks, full records or pairs, as the peer's dialect or the operator
wants.
"""

from importlib.metadata import version
from typing import Any, Final, Literal

from agent.records.blocks import BlockEncoder, Encoder
from agent.records.flatten import flat
from agent.records.full_records import FullEncoder
from agent.records.pairs import PairEncoder
from agent.sources.checkpoint import printable_path
from agent.sources.source import Source
from logdrive.host.clock import Clock

EncodingForm = Literal["block", "full", "beats", "pairs"]
"""What lines are made into: blocks; full records; full records with the `@metadata` of Beats;
pairs.
"""

_NATIVE: Final = ("block", "full")
"""Both are taken under logdrive/1, whichever the connection makes."""


class Encoders:
    """*form* may change between connections, with the dialect."""

    def __init__(self, agent: str, host: str, clock: Clock) -> None:
        self.form: EncodingForm = "block"
        self._block = BlockEncoder()
        self._clock = clock
        self._host = host
        ours = version("logdrive")
        self._common = {
            "host": {"name": host},
            "agent": {"id": agent, "type": "logdrive", "version": ours},
        }
        self._metadata = {"@metadata": {"beat": "logdrive", "type": "_doc", "version": ours}}

    def set_form(self, form: EncodingForm) -> bool:
        """Make *form* from now on; tell whether what was made before can't be sent beside it."""
        before, self.form = self.form, form
        return before != form and not (before in _NATIVE and form in _NATIVE)

    def encoder_for(self, source: Source) -> Encoder:
        """Return the encoder for *source* on the connection there is."""
        if self.form == "block" or source.generation is None:
            return self._block
        place, settings = source.generation.place, source.generation.settings
        path, origin = printable_path(place.path), source.origin.hex
        if self.form == "pairs":
            return PairEncoder(flat(settings.fields, settings.tags), self._host, path, origin)
        labels: dict[str, Any] = {"fields": settings.fields, "tags": settings.tags}
        common = self._common | {key: value for key, value in labels.items() if value}
        if self.form == "beats":
            common = self._metadata | common
        return FullEncoder(common, path, origin, self._clock.now_ms)
