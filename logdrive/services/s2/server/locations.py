"""Locations of basins: a store has one, itself."""

from typing import Final

from logdrive.wire.s2.errors import invalid

LOCATION: Final = "local"
"""The only location: the store's own disk."""

DOCUMENT: Final = {"name": LOCATION, "is_private": True}
"""The location as JSON has it."""


def check_location(name: str | None) -> None:
    """Raise `S2Error`, 422, unless *name* is a location, or None."""
    if name is not None and name != LOCATION:
        raise invalid(f"there is no location {name[:100]!r}: this store is {LOCATION!r}")
