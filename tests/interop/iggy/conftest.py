"""Servers that Iggy's own clients are run against: ours, and the real one where it is at hand."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path

import pytest

from tests.interop.iggy.clients import StockClient
from tests.support.iggy.face import IggyFace
from tests.support.iggy.servers import iggy_server

_names = count(1)


@pytest.fixture(scope="session")
def address_of(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], str]]:
    """Returns the address of a server, "ours" or "real", which is started when first asked for."""
    started: dict[str, str] = {}
    with ExitStack() as stack:

        def address(server: str) -> str:
            if server not in started:
                directory = tmp_path_factory.mktemp(f"iggy-{server}")
                started[server] = _start(stack, server, directory)
            return started[server]

        yield address


def _start(stack: ExitStack, server: str, directory: Path) -> str:
    if server == "ours":
        face = stack.enter_context(IggyFace(directory))
        stack.callback(face.check_running)
        return face.address
    real = stack.enter_context(iggy_server("R1", directory))
    return f"127.0.0.1:{real.port}"


@pytest.fixture
def stream() -> str:
    """The name of a stream that no other test uses."""
    return f"stream-{next(_names)}"


def named(value: object) -> str:
    """Return the id of a parameter."""
    return str(value) if isinstance(value, StockClient | str) else repr(value)
