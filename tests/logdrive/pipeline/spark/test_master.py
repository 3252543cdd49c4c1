"""A wrong master is told before Spark is started: by its form, and by a connection."""

import socket
from collections.abc import Iterator

import pytest

from logdrive.pipeline.spark.master import check_master, why_unreachable


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    """An address at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize(
    "url",
    [
        "local",
        "local[4]",
        "local[*]",
        "local[*, 3]",
        "local-cluster[2,1,1024]",
        "spark://host:7077",
        "spark://one:7077,two:7077",
        "spark://[::1]:7077",
        "yarn",
        "k8s://https://host:6443",
    ],
)
def test_each_form_of_spark_is_a_master(url: str) -> None:
    check_master(url)


@pytest.mark.parametrize(
    ("url", "remedy"),
    [
        ("spark://host", "the port is missing, as in spark://host:7077"),
        ("spark://host:port", "no port between 0 and 65535"),
        ("spark://", "as in spark://host:7077"),
        ("spark://one:7077,two", "spark://two:7077"),
        ("spark://host:7077/", "write host:port"),
        ("host:7077", "write spark://host:7077"),
        ("sparc://host:7077", "write spark://host:7077"),
        ("local[0]", "local[4]"),
        ("local 4", "local[4]"),
    ],
)
def test_what_is_no_master_is_refused_with_what_to_write(url: str, remedy: str) -> None:
    with pytest.raises(ValueError) as error:  # noqa: PT011 - the text is what matters
        check_master(url)
    assert remedy in str(error.value)


def test_a_master_that_takes_connections_is_reachable_beside_one_that_does_not(
    listening: str, closed: str
) -> None:
    assert why_unreachable(f"spark://{closed},{listening}") is None
    reason = why_unreachable(f"spark://{closed}")
    assert reason == f"{closed}: Connection refused"


def test_masters_that_are_no_address_are_not_asked() -> None:
    assert [why_unreachable(url) for url in ("local[2]", "yarn", "k8s://https://h:1")] == [None] * 3
