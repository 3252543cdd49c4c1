"""Rule A3: both engines give the same verdict, on whole tables and on damaged ones."""

import shutil
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

from logdrive.pipeline.audit.audit import Verdict, audit
from logdrive.pipeline.audit.engines.spark import SparkEngine
from logdrive.pipeline.audit.position_hash import hash_positions
from tests.logdrive.pipeline.audit.damages import (
    OF_BATCHES,
    OF_EVENTS,
    damage_batches,
    damage_events,
    fill_tables,
)

HARMLESS = {"order_changed"}
NAMES = [*OF_EVENTS, *OF_BATCHES]
TOGETHER = 3
"""Damages of one audit: Spark takes seconds for each."""


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("whole")
    fill_tables(directory)
    return directory


def damaged(tables: Path, directory: Path, names: list[str], seed: int) -> Path:
    """Return a copy of *tables* in *directory* with the damages *names*."""
    copy, random = directory / "damaged", Random(seed)
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(tables, copy)
    for name in names:
        if name in OF_EVENTS:
            damage_events(copy, OF_EVENTS[name], random)
        else:
            damage_batches(copy, OF_BATCHES[name], random)
    return copy


def by_both(directory: Path, spark: Any) -> Verdict:
    """Return the verdict of the one engine, having compared it with the other's."""
    verdict = audit(str(directory))
    assert verdict == audit(str(directory), partial(SparkEngine, spark))
    return verdict


def test_the_tables_that_are_damaged_have_something_of_all_that_is_judged(tables: Path) -> None:
    verdict = audit(str(tables))
    assert (verdict.quarantined_events, len(verdict.faults), len(verdict.copies)) == (3, 2, 1)
    assert (verdict.lines, verdict.rows, verdict.dead_letters) == (56, 60, 1)
    assert {fault.reason is None for fault in verdict.faults} == {True, False}


@pytest.mark.parametrize("name", NAMES)
def test_a3_every_damage_changes_the_verdict(tables: Path, tmp_path: Path, name: str) -> None:
    """Some rows may be damaged without notice: messages are compared with nothing but copies."""
    whole = audit(str(tables))
    found = (audit(str(damaged(tables, tmp_path, [name], seed))) for seed in range(30))
    assert any(verdict != whole for verdict in found) == (name not in HARMLESS)


@pytest.mark.spark
@pytest.mark.parametrize("part", range(-(-len(NAMES) // TOGETHER)))
def test_a3_both_engines_give_the_same_verdict_on_damaged_tables(
    tables: Path, tmp_path: Path, spark: Any, part: int
) -> None:
    names = Random(7).sample(NAMES, len(NAMES))[part * TOGETHER : (part + 1) * TOGETHER]
    by_both(damaged(tables, tmp_path, names, part), spark)


@pytest.mark.spark
def test_positions_are_hashed_as_spark_hashes_them(spark: Any) -> None:
    positions = [0, 1, -1, 188, 2**40, 2**63 - 1, -(2**63)]
    rows = spark.createDataFrame([(one,) for one in positions], "at long")
    hashed = [row[0] for row in rows.selectExpr(f"xxhash64(at) & {2**40 - 1}L").collect()]
    assert hash_positions(np.array(positions, np.int64)).tolist() == hashed
