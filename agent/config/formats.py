"""The `format` key of an input: what form its lines have."""

from typing import Annotated, Final, Literal

import msgspec

FormatName = Literal[
    "access", "auto", "cri", "csv", "docker", "json", "key_value", "klog", "logfmt", "syslog"
]
"""A form of lines."""

_CONTAINERS = ("cri", "docker")
_ONE_FORM: Final = {
    "columns": ("csv", []),
    "delimiter": ("csv", ","),
    "quote": ("csv", '"'),
    "pair_separator": ("key_value", " "),
    "value_separator": ("key_value", "="),
}
"""Keys that one form alone has, each with that form and its default."""
_Mark = Annotated[str, msgspec.Meta(min_length=1, max_length=1)]


class FormatTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [input.format] table: a form of lines, and where their fields go."""

    type: FormatName
    """The form."""

    fields: Literal["top", "under", "none"] = "top"
    """Whether fields stand at the top of an event, under `key`, or the line stays text alone."""

    key: str = ""
    """The key that fields stand under, with `fields = "under"`; "" for the name of the form."""

    bad_lines: Literal["mark", "keep"] = "mark"
    """Whether a line of another form gets a field `error`. It is shipped in any case."""

    content: FormatName | None = None
    """The form of what a container wrote, or of a syslog message."""

    columns: list[str] = []
    """Names of the columns of CSV; without any, the first line of a file names them."""

    delimiter: _Mark = ","
    """What stands between two values of CSV."""

    quote: _Mark = '"'
    """What values of CSV stand in that have a delimiter."""

    pair_separator: Annotated[str, msgspec.Meta(min_length=1)] = " "
    """What stands between two pairs of `key_value`."""

    value_separator: Annotated[str, msgspec.Meta(min_length=1)] = "="
    """What stands between key and value of `key_value`."""

    def __post_init__(self) -> None:
        """Refuse keys that the form does not have, and combinations that can't work."""
        for key, (form, default) in _ONE_FORM.items():
            if form != self.type and getattr(self, key) != default:
                raise ValueError(f'{key}: it is for type = "{form}" alone')
        if self.key and self.fields != "under":
            raise ValueError('key: it is for fields = "under" alone')
        if self.content is not None and self.type not in (*_CONTAINERS, "syslog", "auto"):
            raise ValueError(f"content: {self.type} has no content of another form")
        if self.content in (*_CONTAINERS, "csv", "key_value", "auto"):
            raise ValueError(f"content: it can't be {self.content}")
        if len(set(self.columns)) < len(self.columns):
            raise ValueError("columns: two have the same name")
        if self.delimiter == self.quote:
            raise ValueError("delimiter: it and quote must differ")
        if self.type == "key_value" and self.pair_separator == self.value_separator:
            raise ValueError("pair_separator: it and value_separator must differ")


def format_table(setting: FormatName | FormatTable | None) -> FormatTable | None:
    """Return what an input's `format` says as a table; None where lines stay as they are."""
    return FormatTable(type=setting) if isinstance(setting, str) else setting
