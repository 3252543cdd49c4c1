"""What tests of the pipeline share: above all one Spark session, as its start costs more than most
of them.
"""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# short runs: a fifth less time
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A session as the pipeline makes it.

    What Spark says is in the file `spark.log` of its directory.
    """
    from logdrive.pipeline.spark.session import open_spark_session
    from logdrive.pipeline.spark.source import LogdriveSource

    with open_spark_session(
        "tests", memory="1g", log=Path(tmp_path_factory.mktemp("spark"), "spark.log")
    ) as started:
        started.dataSource.register(LogdriveSource)
        yield started


@pytest.fixture
def tables(tmp_path: Path) -> Path:
    """The directory of tables that are not there yet."""
    return tmp_path / "tables"
