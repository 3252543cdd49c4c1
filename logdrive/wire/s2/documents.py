"""JSON documents of a known shape, read from bytes of a peer."""

from collections.abc import Callable
from typing import TypeVar

import msgspec

from logdrive.wire.s2.errors import S2Error, bad_json

_T = TypeVar("_T")


def decode_document(
    decoder: "msgspec.json.Decoder[_T]",
    data: bytes | str,
    error: Callable[[str], S2Error] = bad_json,
) -> _T:
    """Return what *data* holds; raise *error* if it is no JSON, or of another shape."""
    try:
        return decoder.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as failure:
        raise error(str(failure)) from failure
    except RecursionError:  # lists within lists, even in a key that is ignored
        raise error("JSON that is nested too deeply") from None
