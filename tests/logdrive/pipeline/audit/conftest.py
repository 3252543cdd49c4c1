"""Both engines of the audit, for tests that hold for either."""

from functools import partial

import pytest

from logdrive.pipeline.audit.engines.arrow import ArrowEngine
from logdrive.pipeline.audit.engines.engine import EngineFactory
from logdrive.pipeline.audit.engines.spark import SparkEngine


@pytest.fixture(params=["arrow", pytest.param("spark", marks=pytest.mark.spark)])
def engine(request: pytest.FixtureRequest) -> EngineFactory:
    """Makes an engine; of Spark only if it is Spark's turn, as a session takes long to start."""
    if request.param == "arrow":
        return ArrowEngine
    return partial(SparkEngine, request.getfixturevalue("spark"))
