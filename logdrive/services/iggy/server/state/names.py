"""Names of Iggy's streams and topics in the store's catalog.

A name that the catalog allows is the same there. Any other, such as one with a space, is called by
a digest of it; only the Iggy face's journal knows whose it is.
"""

import hashlib
import re
from collections.abc import Container
from typing import Final

from logdrive.store.streams.names import is_plain_name
from logdrive.wire.iggy.limits import NAME_BYTES
from logdrive.wire.iggy.revision import Revision

_DIGESTED: Final = "_iggy-"
_DIGEST_CHARACTERS: Final = 32
_SPACES: Final = re.compile(r"\s+")
_R0_NAME: Final = re.compile(r"[\w\s.-]+")


def name_in_catalog(name: str, id_: int, taken: Container[str]) -> str:
    """Return what the catalog is to call something called *name* with the number *id_*.

    *taken* are names in the catalog that other things have there, though not in Iggy any more: they
    got a new name.
    """
    if is_plain_name(name) and name not in taken:
        return name
    for again in range(1 << 32):
        digest = hashlib.sha256(f"{id_}/{again}/{name}".encode()).hexdigest()
        digested = f"{_DIGESTED}{digest[:_DIGEST_CHARACTERS]}"
        if digested not in taken:
            return digested
    raise AssertionError("all names are taken")


def is_shown(name: str) -> bool:
    """Return whether a scope or stream that another face made is shown: it is not internal."""
    return is_plain_name(name)


def free_name(name: str, is_taken: Container[str]) -> str:
    """Return the name under which something that another face called *name* is shown."""
    if name not in is_taken:
        return name
    number = 2
    while (other := f"{name}.{number}") in is_taken:
        number += 1
    return other


def requested_name(name: str, revision: Revision) -> str | None:
    """Return the name that a client's request means; None if it is not a valid one.

    In R0 it is in lower case, with a dot for spaces.
    """
    if not 1 <= len(name.encode(errors="surrogatepass")) <= NAME_BYTES:
        return None
    if revision > Revision.R0:
        return name
    if _R0_NAME.fullmatch(name) is None:
        return None
    return _SPACES.sub(".", name.lower())
