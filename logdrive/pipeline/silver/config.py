"""The [silver] table of pipeline.toml: which lines have which format."""

import re
from fnmatch import translate
from typing import Annotated, Final, Literal

import msgspec

from logdrive.config.bounds import checked
from logdrive.pipeline.formats.catalog import FORMATS, KEYED_FORMATS, built_in_table, make_format
from logdrive.pipeline.formats.format import FormatOptions
from logdrive.pipeline.formats.zones import check_zone
from logdrive.pipeline.silver.schema import REST, TABLES_OF_OURS, TEXT

AUTO: Final = "auto"
"""A format that is told by the first lines of a source."""

RestType = Literal["text", "variant"]
"""What the column `rest` of a table is: JSON as text, or as Delta's VARIANT."""


def _check_format(name: str) -> None:
    if name not in (AUTO, TEXT, *FORMATS):
        raise ValueError(
            f"format: there is no such format; take one of {', '.join((AUTO, TEXT, *FORMATS))}"
        )


def _check_zone(zone: str) -> None:
    try:
        check_zone(zone)
    except ValueError as error:
        raise ValueError(f"zone: {error}") from error


def _check_table(name: str) -> None:
    if name in TABLES_OF_OURS:
        raise ValueError(f"table: {name} is a table of another kind; take another name")


TableName = Annotated[str, msgspec.Meta(pattern="^[a-z][a-z0-9_]*$"), checked(_check_table)]


class FormatRule(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """One [[silver.format]]: the format of the files whose path matches *path*."""

    path: Annotated[str, msgspec.Meta(min_length=1)]  # a pattern of the whole path
    format: Annotated[str, checked(_check_format)] = AUTO
    zone: Annotated[str, checked(_check_zone)] = "UTC"  # of times without one
    service: Annotated[str, msgspec.Meta(min_length=1)] | None = None
    columns: dict[str, str] = {}  # keys with a column of their own, and their types
    table: TableName | None = None  # of the rows
    rest: RestType | None = None  # of the table; None: that of [silver]

    def __post_init__(self) -> None:
        """Refuse a format, a zone or a column that there is not."""
        _check_format(self.format)
        _check_zone(self.zone)
        try:
            # an automatic format may turn out to be any
            for name in FORMATS if self.format == AUTO else {self.format} & FORMATS.keys():
                make_format(name, self.options)
        except ValueError as error:
            raise ValueError(f"columns: {error}") from error
        if self.columns and self.format not in KEYED_FORMATS:
            raise ValueError(
                'columns: only lines of keys have these; write format = "json" or "logfmt", or '
                "leave columns out"
            )
        if self.columns and self.table is None:
            raise ValueError('columns: these make another table; name it, as in table = "orders"')
        if self.table is not None:
            _check_table(self.table)
            self._check_owner(self.table)
        if self.rest is not None:
            self._check_rest()

    def _check_owner(self, table: str) -> None:
        """Refuse a table that would have lines of several formats."""
        if self.format == AUTO:
            raise ValueError(
                'table: a table belongs to one format; name that, as in format = "json", or leave '
                "table out"
            )
        owners = [name for name in FORMATS if built_in_table(name) == table]
        if owners and self.format not in owners:
            raise ValueError(
                f"table: {table} is the table of the format {' or '.join(owners)}, and a table "
                "belongs to one format; take another name"
            )
        if owners and self.columns:
            raise ValueError(
                f"table: {table} also has lines for which no columns are named; take another name"
            )

    def _check_rest(self) -> None:
        """Refuse a type of `rest` for no table, or for one without that column."""
        if self.format == AUTO:
            raise ValueError(
                'rest: that of one table needs a format, as in format = "json"; write that, or '
                "move rest to [silver], for all tables"
            )
        if self.format != TEXT and REST not in make_format(self.format, self.options).schema.names:
            raise ValueError(
                f"rest: the columns of {self.format} have all of a line, and no table of it has "
                "this one; leave rest out"
            )

    @property
    def fixed_table(self) -> str | None:
        """The table of the rows; None if that depends on the lines."""
        if self.table is not None or self.format == AUTO:
            return self.table
        return TEXT if self.format == TEXT else built_in_table(self.format)

    @property
    def options(self) -> FormatOptions:
        """The options of the format."""
        return FormatOptions(self.zone, self.columns)

    def matches(self, path: str | None) -> bool:
        """Return whether the files at *path* are meant: `*` stands for any text, `/` included."""
        return path is not None and re.match(translate(self.path), path) is not None


class SilverConfig(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The [silver] table. The first format whose path matches counts."""

    enabled: bool = False  # fill silver after each commit of `pipeline run`
    max_bytes_per_step: Annotated[int, msgspec.Meta(ge=1 << 20)] = 96 << 20  # of bronze's files
    rest: RestType | None = None  # of all tables; None: as a table has it, and text in a new one
    format: tuple[FormatRule, ...] = ()

    def __post_init__(self) -> None:
        """Refuse two formats for one table of columns, and two types of a table's `rest`."""
        columns: dict[str, tuple[str, dict[str, str]]] = {}
        rests: dict[str | None, str] = {}
        for rule in self.format:
            if rule.table is not None:
                has = columns.setdefault(rule.table, (rule.format, rule.columns))
                if has != (rule.format, rule.columns):
                    raise ValueError(
                        f"format: the table {rule.table} is named with different formats or "
                        "columns; name another table"
                    )
            if rule.rest is not None and rests.setdefault(rule.fixed_table, rule.rest) != rule.rest:
                raise ValueError(
                    f"format: the column rest of the table {rule.fixed_table} is named with both "
                    "types; a table has one"
                )

    def rule_for(self, path: str | None) -> FormatRule:
        """Return the first rule for *path*; without one, the format is automatic."""
        return next((rule for rule in self.format if rule.matches(path)), FormatRule(path="*"))

    @property
    def wants_variants(self) -> bool:
        """Whether the column `rest` of any table shall be VARIANT."""
        return "variant" in (self.rest, *(one.rest for one in self.format))

    def rest_of(self, table: str) -> RestType | None:
        """Return what the column `rest` of *table* shall be; None: what it is, and text if new."""
        said = (one.rest for one in self.format if one.rest and one.fixed_table == table)
        return next(said, self.rest)
