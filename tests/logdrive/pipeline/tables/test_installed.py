"""The extras of pyproject.toml have what the pipeline asks for where it finds a package missing."""

import re
import tomllib
from pathlib import Path

import pytest

from logdrive.pipeline.tables.installed import TABLES_PACKAGES

_PYPROJECT = Path(__file__).parents[4] / "pyproject.toml"
EXTRAS = tomllib.loads(_PYPROJECT.read_text())["project"]["optional-dependencies"]


def test_the_extra_tables_brings_what_a_run_on_one_machine_asks_for() -> None:
    names = [re.split("[<>=]", requirement)[0] for requirement in EXTRAS["tables"]]
    assert sorted(name.replace("-", "_") for name in names) == sorted(TABLES_PACKAGES)


@pytest.mark.parametrize("extra", ["iceberg", "spark"])
def test_what_works_on_tables_brings_them_along(extra: str) -> None:
    assert "logdrive[tables]" in EXTRAS[extra]
