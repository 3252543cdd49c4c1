"""The address at which a run answers Prometheus."""

import pytest

from logdrive.errors import UnavailableError
from logdrive.pipeline.metrics import RunMetrics, serve_metrics


def test_a_port_alone_is_told_how_it_is_written() -> None:
    """It is read as the name of a host, which is none of this machine's."""
    with (
        pytest.raises(UnavailableError, match=r"write host:port, such as :9464"),
        serve_metrics(RunMetrics(), "9464"),
    ):
        pass
