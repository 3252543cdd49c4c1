"""Events of all sizes from a deployed v2 writer, a receiver killed amid them, tables, `store cat`
(R6): whole processes.
"""

import contextlib
import json
import random
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pylogbeat import ConnectionException, PyLogBeatClient

from logdrive.model.units import KIB, MIB
from logdrive.pipeline.bronze.tables import open_tables
from logdrive.pipeline.decode.schema import EVENTS
from tests.support.installation import STREAM, Installation, command

pytestmark = [pytest.mark.process, pytest.mark.spark]

_SIZES = (1, 767 * KIB, 769 * KIB, 3 * MIB, 10 * MIB)


def _messages() -> list[str]:
    """Return messages whose JSON, the bytes of which are counted, has the sizes wanted; the first
    one is a byte itself.
    """
    pick = random.Random(7)
    bare = len(json.dumps({"message": ""}))
    messages = []
    for size in _SIZES:
        text = pick.randbytes(size // 2 + 1).hex()[: size if size == 1 else size - bare]
        messages.append(text)
    return messages


@pytest.fixture
def system(tmp_path: Path, certificates: Path) -> Iterator[Installation]:
    installation = Installation(tmp_path, certificates)
    yield installation
    installation.close()


def _send(system: Installation, messages: list[str]) -> None:
    """Send one window, and return once it is acknowledged."""
    client = PyLogBeatClient(
        "localhost",
        system.port,
        timeout=60,
        ssl_enable=True,
        keyfile=str(system.tls / "client.key"),
        certfile=str(system.tls / "client.pem"),
        ca_certs=str(system.tls / "ca.pem"),
    )
    with client:
        client.send([{"message": message} for message in messages])


def _logdrive(*arguments: str) -> bytes:
    done = subprocess.run(command(*arguments), capture_output=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def _killed_amid_an_event(system: Installation, messages: list[str]) -> int:
    """Kill receivers of empty stores, each a commit later than the one before, until one leaves
    part of an event; return how much.
    """
    for commit in range(4, 20):
        shutil.rmtree(system.store, ignore_errors=True)
        receiver = system.receiver(fault=f"store.commit.before_sync:{commit}")
        with contextlib.suppress(ConnectionException, OSError):
            _send(system, messages)
        receiver.kill()
        if unfinished := system.ledger().unfinished:
            return len(*unfinished.values())
    raise AssertionError("no commit ends amid an event")


def test_r6_each_event_of_window_one_row_byte_for_byte_though_receiver_killed_amid_it(
    system: Installation,
) -> None:
    messages = _messages()
    cut = _killed_amid_an_event(system, messages)
    assert 0 < cut < _SIZES[-1]
    receiver = system.receiver()
    _send(system, messages)
    assert receiver.terminate() == 0, receiver.said()

    uri, tables = f"file://{system.store}#{STREAM}", system.root / "tables"
    printed = Counter(_logdrive("store", "cat", uri).decode().splitlines())
    assert set(printed) == set(messages)
    config = system.root / "pipeline.toml"
    config.write_text(
        f'[pipeline]\nfrom = "{uri}"\nto = "{tables}"\nmax_bytes_per_batch = {4 * MIB}\n'
    )
    _logdrive("pipeline", "run", "--config", str(config), "--once")
    rows = open_tables(str(tables))[0].read_rows(EVENTS.names).to_pylist()
    assert Counter(row["message"] for row in rows) == printed
    assert printed[messages[-1]] == 1, "what was cut short is no row"
    assert [(row["flag"], row["fields"]) for row in rows] == [(None, None)] * len(rows)
    audit = json.loads(_logdrive("pipeline", "audit", str(tables), "--json"))
    assert (audit["complete"], audit["lines"], audit["dead_letters"]) == (True, len(rows), 0)
