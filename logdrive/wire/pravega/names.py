"""What segments beside a stream's own are called (Pravega's naming, section 6 of the
specification).
"""

import re
from typing import Final
from uuid import UUID

_BESIDE: Final = re.compile(
    r"(?P<parent>.+)#(?:transaction\.[0-9a-f]{32}|transient\.[0-9a-f]{32}\.[0-9a-f]{32})"
)


def transaction_name(parent: str, transaction: UUID) -> str:
    """Return the segment that holds what *transaction* wrote for *parent*, until it is merged into
    it or deleted.
    """
    return f"{parent}#transaction.{transaction.hex}"


def transient_name(parent: str, writer: UUID, unique: UUID) -> str:
    """Return a segment in which *writer* gathers one large event for *parent*."""
    return f"{parent}#transient.{writer.hex}.{unique.hex}"


def parent_of(segment: str) -> str | None:
    """Return the segment that a transaction's or transient segment is meant for; None for any other
    segment.
    """
    found = _BESIDE.fullmatch(segment)
    return found["parent"] if found is not None else None


def is_transient(segment: str) -> bool:
    """Tell whether *segment* is for one large event only."""
    return parent_of(segment) is not None and "#transient." in segment
