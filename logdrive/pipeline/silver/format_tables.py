"""What a table of a format's rows is bound to: one format, and one type a column.

A new configuration may add columns, and leave some out. It may not give a column another type, nor
put lines of another format into a table: both are refused before anything of a step is committed.
Both are looked up in the tables, and in the decisions on sources: a source whose lines were all
quarantined so far has no rows yet, but its columns count. The column `rest` is JSON text or VARIANT
by the configuration, and from then on what the table has.
"""

import os
from collections.abc import Iterable

import pyarrow as pa

from logdrive.errors import ConfigError, Mistake, StorageError
from logdrive.pipeline.decode.schema import VARIANT, plain_schema
from logdrive.pipeline.formats.keyed import type_name
from logdrive.pipeline.silver.config import AUTO, FormatRule, RestType, SilverConfig
from logdrive.pipeline.silver.decisions import Decisions, FormatDecision
from logdrive.pipeline.silver.schema import REST, TEXT, TEXT_COLUMNS, rows_schema
from logdrive.pipeline.tables.installed import require_packages
from logdrive.pipeline.tables.open_table import is_table, open_table_as_it_is

CONFIG_PART = "silver"
"""What a `ConfigError` names in place of the file, which is not known here."""

_ANEW = "make silver anew with `logdrive pipeline rebuild {} --table silver`"
_REMEDY = f"name another `table`, or {_ANEW}"


class FormatTables:
    """The formats and columns of all tables of formats, as far as decisions have bound them."""

    def __init__(self, place: str, decisions: Decisions) -> None:
        """*place* is the directory of the silver tables."""
        self._place = place
        # by table: the format that each of its formats is a kind of
        self._owners: dict[str, set[str]] = {}
        # by table: its columns' types, as readers see them
        self._columns: dict[str, dict[str, pa.DataType]] = {}
        # kinds of decisions that fit
        self._fitting: set[str] = set()
        for decision in decisions.one_of_each_kind():
            self._bind(decision)

    def check_config(self, config: SilverConfig) -> None:
        """Refuse a format that the tables are bound against. Raises `ConfigError`."""
        mistakes = []
        for number, rule in enumerate(config.format):
            if rule.format == AUTO:
                continue
            misfit = self._misfit(_decision_of(rule))
            if misfit is not None:
                column, why = misfit
                key = f"columns.{column}" if column in rule.columns else "table"
                value = rule.columns.get(column or "", rule.table or "")
                mistakes.append(
                    Mistake(f"format[{number}].{key}", f'"{value}"' if value else "", why)
                )
        mistakes += self._changed_rests(config)
        if mistakes:
            raise ConfigError(CONFIG_PART, mistakes)

    def variant_tables(self, tables: Iterable[str], config: SilverConfig) -> frozenset[str]:
        """Return which of *tables* have, or get, their column `rest` as VARIANT.

        Raises `PackagesMissingError` if there are any, and nothing is installed that writes it.
        """
        found = frozenset(
            table
            for table in tables
            if (self._rest_of(table) or config.rest_of(table)) == "variant"
        )
        if found:
            require_variant_writer()
        return found

    def _rest_of(self, table: str) -> RestType | None:
        """Return what the column `rest` of *table* is; None if there is none yet."""
        type_ = self._columns_of(table).get(REST)
        return None if type_ is None else "variant" if type_ == VARIANT else "text"

    def _changed_rests(self, config: SilverConfig) -> list[Mistake]:
        """Return where *config* wants `rest` of a table that is there to be of another type."""
        mistakes = []
        numbers = {rule.fixed_table: n for n, rule in enumerate(config.format) if rule.rest}
        for table in sorted({TEXT, *self._owners}):
            had, wanted = self._rest_of(table), config.rest_of(table)
            if had is None or wanted is None or had == wanted:
                continue
            key = f"format[{numbers[table]}].{REST}" if table in numbers else REST
            why = (
                f"the column {REST} of {os.path.join(self._place, table)} is {had}, and can't "
                f'become {wanted}: write {REST} = "{had}", or '
            ) + _ANEW.format(os.path.dirname(self._place))
            mistakes.append(Mistake(key, f'"{wanted}"', why))
        return mistakes

    def check_decisions(self, sources: Iterable[tuple[str, FormatDecision]]) -> None:
        """Refuse lines that don't fit their table; *sources* are names, and what was decided.

        Costs nothing for kinds of decisions that were checked before. Raises `StorageError`.
        """
        for name, decision in sources:
            if decision.kind in self._fitting:
                continue
            misfit = self._misfit(decision)
            if misfit is not None:
                raise StorageError(f"{name}: {misfit[1]}")
            self._bind(decision)
            self._fitting.add(decision.kind)

    def _misfit(self, decision: FormatDecision) -> tuple[str | None, str] | None:
        """Return the column that does not fit, if it is one, and why; None if all is well."""
        table, owner = decision.table, _owner(decision)
        where = os.path.join(self._place, table)
        remedy = _REMEDY.format(os.path.dirname(self._place))
        others = self._owners.get(table, set()) - {owner}
        if others:
            return None, (
                f"{where} has lines of the format {', '.join(sorted(others))}, and a table belongs "
                f"to one format, so none of {owner} can go there: {remedy}"
            )
        there = self._columns_of(table)
        for field in _own_columns(decision):
            had = there.get(field.name, field.type)
            if had != field.type:
                return field.name, (
                    f"the column {field.name} of {where} has the type {type_name(had)}, and can't "
                    f"become {type_name(field.type)}: {remedy}"
                )
        return None

    def _bind(self, decision: FormatDecision) -> None:
        self._owners.setdefault(decision.table, set()).add(_owner(decision))
        columns = self._columns_of(decision.table)
        for field in _own_columns(decision):
            columns.setdefault(field.name, field.type)

    def _columns_of(self, table: str) -> dict[str, pa.DataType]:
        if table not in self._columns:
            path = os.path.join(self._place, table)
            schema = open_table_as_it_is(path).schema if is_table(path) else ()
            self._columns[table] = {field.name: field.type for field in schema}
        return self._columns[table]


def require_variant_writer() -> None:
    """Raise `PackagesMissingError` if pyspark, which makes values of VARIANT, is not installed."""
    require_packages(["pyspark"], "spark", f'{REST} = "variant"')


def _decision_of(rule: FormatRule) -> FormatDecision:
    return FormatDecision(rule.format, rule.service, rule.options, rule.table)


def _owner(decision: FormatDecision) -> str:
    """Return the format whose table it is where none is named: that of its kin."""
    made = decision.make()
    return made.table if made is not None else TEXT


def _own_columns(decision: FormatDecision) -> pa.Schema:
    """Return the columns of the rows, but for `rest`, whose type is the table's."""
    made = decision.make()
    own = made.schema if made is not None else TEXT_COLUMNS
    return plain_schema(rows_schema([field for field in own if field.name != REST]))
