"""Sources are judged by headers put together as by each header for itself."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from logdrive.model.dead_letters import DISMISSED
from logdrive.pipeline.audit.heads import Head, heads_by_row, heads_from_table
from logdrive.pipeline.audit.judge_sources import (
    FIRST_RUN,
    audit_sources,
    date_complete_parts,
)
from logdrive.pipeline.audit.sources import AuditedSource
from logdrive.pipeline.decode.coverage import total_size, union
from logdrive.pipeline.decode.schema import BATCHES, FOREIGN, HEADLESS

SCHEMA = pa.schema([BATCHES.field(name) for name in Head._fields])
places = st.integers(0, 40)
# also damaged ones, which have no bytes, or no ends
intervals = st.lists(
    st.fixed_dictionaries({"start": places | st.none(), "end": places | st.none()}), max_size=3
)


def mostly(value: Any, *others: Any) -> st.SearchStrategy[Any]:
    """Return nearly always *value*, so that many headers have the same names."""
    return st.sampled_from([*[value] * 4, *others])


usual = st.fixed_dictionaries(
    {
        "segment": st.sampled_from(["a", "b", "c"]),
        "kind": st.just("data"),
        "source": mostly("one", "two"),
        "host": mostly("h1", "h2", None),
        "path": mostly("/p", None),
        "position": places | st.none(),
        "kept": intervals | st.none(),
        "dropped": st.just([]) | intervals,
        "rows": st.integers(0, 9),
        "bytes": st.integers(0, 99),
        "received": st.integers(1000, 20_000),
        "mark_start": st.none(),
        "mark_end": st.none(),
        "mark_reason": st.none(),
        "mark_exact": st.none(),
        "resend": mostly(False, True),
        "origin": mostly("o1", None, "o2"),
    }
)
others = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["data", "data", "data", "gap", "end", "start", FOREIGN, HEADLESS]),
        "source": st.sampled_from(["one", "two", "three", None]),
        "rows": st.sampled_from([-3, -1, 2]),
        "received": st.integers(1000, 20_000) | st.none(),
        "mark_start": mostly(None, 3, 30),
        "mark_end": mostly(None, 7, 60),
        "mark_reason": mostly(None, "truncated", FIRST_RUN, DISMISSED),
        "mark_exact": st.booleans() | st.none(),
    }
)


@st.composite
def headers(draw: st.DrawFn) -> pa.Table:
    rows = draw(st.lists(usual, min_size=draw(st.sampled_from([0, 9])), max_size=25))
    rows += [draw(usual) | row for row in draw(st.lists(others, max_size=6))]
    rows = [row | {"offset": number} for number, row in enumerate(draw(st.permutations(rows)))]
    # in pieces, as the files of a table are
    cut = draw(st.integers(0, len(rows)))
    pieces = [pa.Table.from_pylist(piece, SCHEMA) for piece in (rows[:cut], rows[cut:])]
    return pa.concat_tables(pieces)


def seen(sources: list[AuditedSource]) -> list[Any]:
    """Return all of *sources* but how their intervals are parted."""
    return [
        (
            replace(source, kept=[], dropped=[]),
            (total_size(source.kept), union(source.kept), union(source.dropped)),
        )
        for source in sources
    ]


@given(headers(), st.dictionaries(st.sampled_from(["one", "two"]), places))
def test_a_verdict_does_not_depend_on_which_headers_are_put_together(
    table: pa.Table, asked_from: dict[str, int]
) -> None:
    expected = audit_sources(heads_by_row(table), asked_from)
    found = audit_sources(heads_from_table(table), asked_from)
    assert seen(found) == seen(expected)


@given(headers())
def test_complete_parts_are_dated_by_the_last_batch_inside(table: pa.Table) -> None:
    sources = audit_sources(heads_from_table(table))
    date_complete_parts(sources, table)
    for source in sources:
        inside = [
            (head.received or 0) // 1000
            for head in heads_by_row(table)
            if head.kind == "data"
            and head.source == source.source
            and (head.position or 0) <= source.complete_to
        ]
        assert source.complete_since == (0 if source.foreign else max(inside, default=0))


def test_a_trickle_takes_two_heads_a_source() -> None:
    row = dict.fromkeys(SCHEMA.names) | {"segment": "a", "kind": "data", "resend": False}
    rows = [
        row
        | {"source": f"s{n % 3}", "offset": n, "received": n * 1000, "rows": 1, "bytes": 0}
        | {"kept": [{"start": n // 3, "end": n // 3 + 1}], "dropped": [], "position": n // 3 + 1}
        for n in range(3000)
    ]
    heads = heads_from_table(pa.Table.from_pylist(rows, SCHEMA))
    assert len(heads) == 6
    assert [head.kept for head in heads[3:]] == [[(1, 1000)]] * 3
    assert [source.bytes for source in audit_sources(heads)] == [1000] * 3
