"""Packs: the bytes of a run, compressed once by the agent, and opened by who reads them (R8).

A pack is the payload of a `Z` frame, and the one record of its batch, unchanged:

    u8 form, u8 codec, u32 size of the content, u32 CRC-32 of the content, the content compressed

Integers are big-endian. Whether a record is a pack, its batch's header says (`form`), never its
bytes. A pack is whole by itself: no other pack is needed to open it.
"""

import struct
from enum import IntEnum
from typing import Final, NamedTuple, cast

import zstandard
from isal import isal_zlib

from logdrive.model.batch import HeaderForm
from logdrive.model.limits import PACK_BYTES, PACK_RATIO, PACK_RATIO_FREE
from logdrive.packs import zstd

_HEAD: Final = struct.Struct("!BBII")
PACK_HEAD: Final = _HEAD.size
"""Bytes of a pack before its compressed content."""
_RAW_DEFLATE: Final = -15
"""zlib's name for a deflate stream with neither head nor checksum, in a window of 32 KiB."""

# its type stub takes the class for an instance
INFLATE_ERROR: Final = cast("type[Exception]", isal_zlib.error)
"""What isal raises for a stream that does not inflate."""


class PackForm(IntEnum):
    """What the content of a pack is."""

    TEXT = 1
    """The file's own bytes, from previous position to position; an event is a line."""
    CUT_TEXT = 2
    """The same, after the lengths of its events and of what was left out (see `cuts`)."""
    RECORDS = 3
    """Records, framed as Pravega events (`logdrive.model.framing`), one event each."""

    @property
    def in_header(self) -> HeaderForm:
        """The form as the header of the pack's batch names it (rule R4)."""
        return "records" if self is PackForm.RECORDS else "text"


class PackCodec(IntEnum):
    """How the content of a pack is compressed."""

    STORED = 0
    """Not at all."""
    DEFLATE = 1
    """One deflate stream (RFC 1951)."""
    ZSTD = 2
    """One zstd frame (RFC 8878) that names the size of its content."""


# a look-up costs a tenth of calling an enumeration, which counts for packs of one line
_FORMS: Final = {int(form): form for form in PackForm}
_CODECS: Final = {int(codec): codec for codec in PackCodec}


class PackError(ValueError):
    """A pack that can't be opened, or whose content contradicts what is said of it."""


class PackHead(NamedTuple):
    """What a pack says of its content."""

    form: PackForm
    codec: PackCodec
    size: int  # bytes of the content
    crc: int  # CRC-32 of the content


def make_pack(
    form: PackForm, content: bytes | memoryview, codec: PackCodec, level: int = 1
) -> bytes:
    """Return *content*, 1 to `PACK_BYTES` bytes, as a pack; stored where compression saves nothing.

    Level 1 is the fast one of both codecs. The interpreter's lock is released meanwhile. Raises
    ValueError for content of no byte, and of too many.
    """
    if not 0 < len(content) <= PACK_BYTES:
        raise ValueError(f"a pack of {len(content)} bytes, not between 1 and {PACK_BYTES}")
    packed = _compress(content, codec, level)
    # a reader takes more than this for an attack; such text loses nothing by the other codec
    if codec is PackCodec.ZSTD and _ratio_exceeded(len(content), len(packed)):
        codec, packed = PackCodec.DEFLATE, _compress(content, PackCodec.DEFLATE, 1)
    if len(packed) >= len(content):
        codec, packed = PackCodec.STORED, content
    return b"".join((_HEAD.pack(form, codec, len(content), isal_zlib.crc32(content)), packed))


def parse_head(pack: bytes | memoryview) -> PackHead:
    """Return the head of *pack*, after all checks that need no decompression.

    Raises `PackError` for an unknown form or codec, and for a size over its limits, or one that the
    compressed bytes can't have.
    """
    if len(pack) <= PACK_HEAD:
        raise PackError(f"a pack of {len(pack)} bytes")
    form, codec, size, crc = _HEAD.unpack_from(pack)
    packed = len(pack) - PACK_HEAD
    known_form, known_codec = _FORMS.get(form), _CODECS.get(codec)
    if known_form is None:
        raise PackError(f"a pack of the unknown form {form}")
    if known_codec is None:
        raise PackError(f"a pack of the unknown codec {codec}")
    if not 0 < size <= PACK_BYTES:
        raise PackError(f"a pack of {size} bytes, not between 1 and {PACK_BYTES}")
    if known_codec is PackCodec.STORED and size != packed:
        raise PackError(f"a stored pack of {size} bytes that has {packed}")
    # compression that makes it longer hides something, which a reader would keep in memory
    if packed > size + PACK_RATIO_FREE:
        raise PackError(f"a pack of {size} bytes in {packed}, {PACK_RATIO_FREE} more at least")
    if _ratio_exceeded(size, packed):
        raise PackError(f"a pack of {size} bytes in {packed}, more than {PACK_RATIO} times as many")
    return PackHead(known_form, known_codec, size, crc)


def open_pack(pack: bytes | memoryview) -> tuple[PackHead, bytes]:
    """Return the head of *pack*, and its content, whose size and CRC-32 are as the head says.

    Takes memory for what the head says and some 300 KiB, and for a copy of *pack* while it proves
    that a pack lies. Raises `PackError`.
    """
    head = parse_head(pack)
    return head, open_content(head, pack)


def open_content(head: PackHead, pack: bytes | memoryview) -> bytes:
    """Return the content of *pack*, as `open_pack` does; *head* is what `parse_head` returned."""
    content = _decompress(head, memoryview(pack)[PACK_HEAD:])
    if len(content) != head.size:
        raise PackError(f"a pack of {head.size} bytes that holds {len(content)} or more")
    if isal_zlib.crc32(content) != head.crc:
        raise PackError("a pack whose content has another CRC-32 than its head says")
    return content


def _ratio_exceeded(size: int, packed: int) -> bool:
    return size > PACK_RATIO_FREE and size > PACK_RATIO * packed


def _compress(content: bytes | memoryview, codec: PackCodec, level: int) -> bytes | memoryview:
    match codec:
        case PackCodec.STORED:
            return content
        case PackCodec.DEFLATE:
            return bytes(isal_zlib.compress(content, min(level, 3), _RAW_DEFLATE))
        case PackCodec.ZSTD:
            return zstd.compress(content, level)


def _decompress(head: PackHead, packed: memoryview) -> bytes:
    if head.codec is PackCodec.STORED:
        return bytes(packed)
    if head.codec is PackCodec.ZSTD:
        return _decompress_zstd(head, packed)
    inflater = isal_zlib.decompressobj(_RAW_DEFLATE)
    try:
        # one byte more shows that there is more
        content = inflater.decompress(packed, head.size + 1)
    except INFLATE_ERROR as error:
        raise PackError(f"a pack that does not inflate: {error}") from error
    if len(content) <= head.size and not inflater.eof:
        raise PackError("a pack whose deflate stream is cut off")
    if inflater.unused_data:
        raise PackError("a pack with bytes after its deflate stream")
    return content


def _decompress_zstd(head: PackHead, packed: memoryview) -> bytes:
    try:
        said = zstandard.get_frame_parameters(packed)
        # the library takes memory for what the frame says
        if said.content_size != head.size:
            raise PackError(f"a pack of {head.size} bytes whose zstd frame names another size")
        if said.window_size > PACK_BYTES:
            raise PackError(f"a pack whose zstd window is {said.window_size} bytes")
        return zstd.decompress(packed, PACK_BYTES)
    except zstandard.ZstdError as error:
        raise PackError(f"a pack that zstd can't open: {error}") from error
