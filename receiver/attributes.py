"""The attributes of a source: checked once, at its S; from then on the very bytes go into every batch header (rule R4)."""

from typing import Any

import msgspec


class Attributes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a writer may say of a source. *resend* marks a deliberate resend (rule A4)."""

    host: str | dict[str, Any] = ""
    agent: str | dict[str, Any] = ""
    path: str = ""
    fields: dict[str, Any] = {}
    tags: tuple[str, ...] = ()
    resend: bool = False


_decode = msgspec.json.Decoder(Attributes).decode


def parse(data: bytes) -> Attributes:
    """Return the attributes in *data*. Raises ValueError with the reason (E 7); their length was checked by the frame reader."""
    try:
        return _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"attributes that can't be used: {error}") from error
