"""The pack of a run, kept as its content until it is compressed, then only compressed (rule R8).

The content is compressed by whoever needs the pack first: in the agent a thread that puts a window
together, so that the event loop reads on meanwhile. A pack is about a sixth of its content; what
waits for its acknowledgement takes no more memory than that.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, overload

from logdrive.errors import TransientError
from logdrive.model.framing import EVENT_HEAD, Part, unframe_events
from logdrive.model.limits import RECORD_BYTES
from logdrive.packs.pack import PACK_HEAD, PackCodec, PackForm, make_pack, open_pack
from logdrive.records.pack_sizes import PackSizes
from logdrive.wire.lumberjack.frames import pack_frame

_STORED_BYTES: Final = 512
"""Below this size content is not compressed: the envelope of its window saves more, and on the disk
it is little beside the header of its batch.
"""

Content = bytes | memoryview | Callable[[], bytes]
"""The content of a pack, or a function that makes it when it is needed, in whichever thread."""


@dataclass(frozen=True, slots=True)
class Packing:
    """How packs are compressed."""

    codec: PackCodec
    """The codec."""

    level: int
    """Its level; deflate's highest is 3."""

    sizes: PackSizes | None = field(default=None, compare=False)
    """Sizes packs of text, and is told what they become; None for small ones."""


class PackOverflowError(TransientError):
    """A pack of much text that does not compress so well that it is a record.

    Its run has to be made anew, of smaller packs.
    """


class RunPack(Sequence[bytes]):
    """The pack of one run, as a sequence of one record.

    May be compressed by one thread while another reads it.
    """

    __slots__ = ("_content", "_pack", "form", "packing")

    def __init__(self, form: PackForm, content: Content, packing: Packing) -> None:
        """Keep *content* until it is compressed as *packing* says."""
        self.form: Final = form
        self.packing: Final = packing
        self._content: Content | None = content  # None once it is compressed
        self._pack: bytes | None = None  # None before

    @property
    def pack(self) -> bytes:
        """The pack; its content is compressed first if it was not yet."""
        # another thread sets the pack before it drops the content
        content = self._content
        if content is not None:
            codec, level = self.packing.codec, self.packing.level
            data = content() if callable(content) else content
            if len(data) < _STORED_BYTES:
                codec = PackCodec.STORED
            self._pack = pack = make_pack(self.form, data, codec, level)
            if self.packing.sizes is not None:
                self.packing.sizes.on_packed(len(data), len(pack))
            self._content = None
        assert self._pack is not None
        return self._pack

    @property
    def is_compressed(self) -> bool:
        """Whether `pack` returns at once."""
        return self._content is None

    @property
    def content(self) -> bytes:
        """The content; takes an inflation once it is compressed."""
        content = self._content
        if content is not None:
            return content() if callable(content) else bytes(content)
        return open_pack(self.pack)[1]

    @property
    def records(self) -> list[bytes]:
        """The records of a pack of the form `PackForm.RECORDS`."""
        return unframe_events(self.content)

    def __len__(self) -> int:
        return 1

    @overload
    def __getitem__(self, index: int) -> bytes: ...

    @overload
    def __getitem__(self, index: slice) -> list[bytes]: ...

    def __getitem__(self, index: int | slice) -> bytes | list[bytes]:
        return [self.pack][index]


class PendingFrame(NamedTuple):
    """The Z frame of a pack that may not be compressed yet."""

    sequence: int
    """Its number on the connection."""

    pack: RunPack
    """What it carries."""

    def encode(self) -> tuple[bytes, Part]:
        """Return the frame's head and the pack, which is compressed first if it was not yet.

        Raises `PackOverflowError`.
        """
        pack = self.pack.pack
        if len(pack) > RECORD_BYTES:
            raise PackOverflowError(
                f"text that becomes a pack of {len(pack):,} bytes, more than a record has: it goes "
                "in smaller packs from now on"
            )
        return pack_frame(self.sequence, pack)


class PendingPart(Protocol):
    """Frames that are encoded when their window is packed, in whichever thread that is."""

    def encode(self) -> tuple[Part, ...]:
        """Return the frames, in parts."""
        ...


FramePart = bytes | PendingPart
"""A part of a run's frames."""


def encode_parts(frames: Sequence[FramePart]) -> list[Part]:
    """Return *frames* as parts to join or write; those that wait for it are encoded first."""
    parts = list[Part]()
    for frame in frames:
        parts += (frame,) if isinstance(frame, bytes) else frame.encode()
    return parts


def packed_size(content: int) -> int:
    """Return the most bytes that a pack of so many bytes of *content* takes in a batch."""
    return EVENT_HEAD + PACK_HEAD + content
