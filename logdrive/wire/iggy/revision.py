"""Revisions of Iggy's protocol, and how a classic client's is told.

See docs/protocols/iggy.md#revisions. The protocol has no version in its frames: a peer is of one
revision, and the layouts of the revisions are not compatible. R3 alone has frames of its own, which
begin with four zero bytes.
"""

import re
from enum import IntEnum
from typing import Final, Literal


class Revision(IntEnum):
    """A revision, in the order in which they came: `revision >= Revision.R1` reads as it should."""

    R0 = 0
    """August 2023: no login."""
    R0B = 1
    """October 2023: login without a version, consumers and groups by name; iggy-py 0.1."""
    R1 = 2
    """2024, server 0.4; iggy-py 0.2 to 0.4."""
    R2A = 3
    """Server 0.5: messages with an index; apache-iggy 0.5."""
    R2B = 4
    """Server 0.6: nothing created with an id, partitions counted from 0; apache-iggy 0.6."""
    R2C = 5
    """Servers 0.7 and 0.8: typed keys of user headers; apache-iggy 0.7 and 0.8."""
    R3 = 6
    """Server 0.9: frames with heads of 256 bytes; apache-iggy 0.9."""


# the first two numbers of the version that a client's library tells at its login
_VERSION: Final = re.compile(r"(\d{1,9})\.(\d{1,9})(?!\d)")
_BY_MINOR: Final = {
    7: Revision.R2A,
    8: Revision.R2B,
    9: Revision.R2C,
    10: Revision.R2C,
}


def revision_of_version(text: str) -> Revision | None:
    """Return the classic revision that a library of this version speaks, such as "0.10.0".

    None if the text is no version, or one that Iggy's own libraries of classic revisions never had.
    """
    found = _VERSION.match(text)
    if found is None or int(found[1]) != 0:
        return None
    minor = int(found[2])
    return Revision.R1 if minor < min(_BY_MINOR) else _BY_MINOR.get(minor)


def first_partition(revision: Revision) -> Literal[0, 1]:
    """Return the number that the first partition of a topic has on the wire."""
    return 1 if revision <= Revision.R2A else 0
