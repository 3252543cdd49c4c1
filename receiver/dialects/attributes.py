"""The attributes of a source: checked once, in its S frame. Each batch header has the same bytes
(rule R4).
"""

from typing import Any

import msgspec

from logdrive.model.limits import ATTRIBUTES_DEPTH


class WriterAttributes(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The attributes that a writer may give a source."""

    host: str | dict[str, Any] = ""
    agent: str | dict[str, Any] = ""
    path: str = ""
    fields: dict[str, Any] = {}
    tags: tuple[str, ...] = ()
    resend: bool = False  # a deliberate resend (rule A4)


_decode = msgspec.json.Decoder(WriterAttributes).decode


def parse_attributes(data: bytes) -> WriterAttributes:
    """Return the attributes in *data*, whose length the frame reader has checked.

    Raises ValueError with the reason (E 7).
    """
    try:
        attributes = _decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ValueError(f"attributes that can't be used: {error}") from error
    except RecursionError as error:
        raise _too_deep() from error

    # depth is counted only where there are brackets enough
    if data.count(b"{") + data.count(b"[") > ATTRIBUTES_DEPTH:
        for value in (attributes.host, attributes.agent, attributes.fields):
            _check_depth(value, ATTRIBUTES_DEPTH - 1)
    return attributes


def _check_depth(value: object, left: int) -> None:
    """Raise ValueError if *value* has more than *left* tables and lists inside one another."""
    if not isinstance(value, dict | list):
        return
    if left == 0:
        raise _too_deep()
    for inner in value.values() if isinstance(value, dict) else value:
        _check_depth(inner, left - 1)


def _too_deep() -> ValueError:
    return ValueError(
        f"attributes that can't be used: more than {ATTRIBUTES_DEPTH} tables and lists "
        "inside one another"
    )
