"""Names of basins and streams, and how they travel in paths. See docs/protocols/s2.md#names."""

import re
from collections.abc import Callable
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from logdrive.wire.s2.errors import S2Error, bad_header, bad_path
from logdrive.wire.s2.limits import (
    BASIN_NAME_MAX_BYTES,
    BASIN_NAME_MIN_BYTES,
    REQUEST_TOKEN_BYTES,
    STREAM_NAME_BYTES,
)

_BASIN: Final = re.compile(
    rf"(?=.{{{BASIN_NAME_MIN_BYTES},{BASIN_NAME_MAX_BYTES}}}\Z)[a-z0-9][a-z0-9-]*[a-z0-9]"
)


def is_basin(name: str) -> bool:
    """Return whether *name* obeys S2's rules for the names of basins."""
    return _BASIN.fullmatch(name) is not None


def check_basin(name: str, error: Callable[[str], S2Error] = bad_path) -> str:
    """Return *name* if it is one of a basin; else raise *error*, which depends on where it stood:
    bad_path, bad_json or bad_header.
    """
    if not is_basin(name):
        raise error(
            f"a basin's name has {BASIN_NAME_MIN_BYTES} to {BASIN_NAME_MAX_BYTES} characters of"
            " a-z, 0-9 and -, and begins and ends with none of -"
        )
    return name


def is_stream(name: str) -> bool:
    """Return whether *name* obeys S2's rules for the names of streams."""
    return (
        name not in ("", ".", "..")
        and "\0" not in name
        and len(name.encode(errors="surrogatepass")) <= STREAM_NAME_BYTES
    )


def check_stream(name: str, error: Callable[[str], S2Error] = bad_path) -> str:
    """Return *name* if it is one of a stream; else raise *error*, as `check_basin` does."""
    if not is_stream(name):
        raise error(
            f"a stream's name has 1 to {STREAM_NAME_BYTES} bytes of UTF-8 without NUL, and is"
            " neither . nor .."
        )
    return name


def decode_segment(raw: str) -> str:
    """Return the name that one segment of a path means, decoded once; "%2F" becomes "/".

    Raises `S2Error`, bad_path, for what is not UTF-8 then.
    """
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError:
        raise bad_path("a path whose percent-encoded bytes are not UTF-8") from None


def encode_segment(name: str) -> str:
    """Return *name* as one segment of a path."""
    return quote(name, safe="")


def check_request_token(token: str | None) -> str | None:
    """Return the value of `s2-request-token`; raise `S2Error`, bad_header, for a longer one."""
    if token is not None and len(token.encode()) > REQUEST_TOKEN_BYTES:
        raise bad_header(f"s2-request-token has over {REQUEST_TOKEN_BYTES} bytes")
    return token
