"""pylogbeat, a deployed Lumberjack v2 writer, against a real receiver: sockets, mutual TLS, and a
store on a real disk.
"""

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from pylogbeat import PyLogBeatClient

from tests.interop.receiving import with_a_receiver

Use = Callable[[PyLogBeatClient], None]


async def _with_a_receiver(work: Path, use: Use) -> list[bytes]:
    """Run *use* with a client of a receiver in this process; return the records that were
    stored.
    """
    return (await with_a_receiver(work, lambda port, tls: _use(port, tls, use))).foreign


def _use(port: int, tls: Path, use: Use) -> None:
    client = PyLogBeatClient(
        "127.0.0.1",
        port,
        timeout=20,
        ssl_enable=True,
        keyfile=str(tls / "client.key"),
        certfile=str(tls / "client.pem"),
        ca_certs=str(tls / "ca.pem"),
    )
    with client:
        use(client)


@pytest.mark.process
def test_batches_of_all_sizes_arrive_in_order_each_with_the_acknowledgement_it_waits_for(
    tmp_path: Path,
) -> None:
    sizes = random.Random(3).choices((1, 2, 25, 999, 1000, 2048), k=12)
    batches = [
        [{"message": f"batch {batch} event {number} \u20ac"} for number in range(size)]
        for batch, size in enumerate(sizes)
    ]

    def use(client: PyLogBeatClient) -> None:
        for batch in batches:
            client.send(batch)

    records = asyncio.run(_with_a_receiver(tmp_path, use))
    assert [json.loads(record) for record in records] == [
        event for batch in batches for event in batch
    ]


@pytest.mark.process
def test_a_client_that_comes_back_goes_on_with_its_own_numbers(tmp_path: Path) -> None:
    def use(client: PyLogBeatClient) -> None:
        client.send([{"message": "one"}, {"message": "two"}])
        client.close()
        client.send([{"message": "three"}])

    records = asyncio.run(_with_a_receiver(tmp_path, use))
    assert [json.loads(record)["message"] for record in records] == ["one", "two", "three"]
