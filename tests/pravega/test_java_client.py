"""Pravega's own Java client, 0.13.0, as it is: at our store and controller, and at a real Pravega
for comparison.

`client/Client.java` does what its users do and prints what came of it; both places must make the
same of it.
"""

import asyncio
from pathlib import Path

import pytest

from tests.pravega.java import told
from tests.pravega.sites import Sites

pytestmark = [
    pytest.mark.pravega_server,
    pytest.mark.usefixtures("java_client"),
    pytest.mark.timeout(600),
]


def numbers(start: int, end: int) -> str:
    """Return events of all keys, in the order of each."""
    return ", ".join(f"{key}: {' '.join(map(str, range(start, end)))}" for key in range(4))


EXPECTED = {
    "scope": "true | false | true",
    "stream": "true | false",
    "update": "true | [two]",
    "tagged": "[events] | []",
    "noted": "true | true",
    "group": "true | true",
    "both": "true | true | 2",
    "read": numbers(0, 25),
    "checkpoint": "1",
    "subscribers": "[java/readers]",
    "left": numbers(25, 50),
    "truncate": "true",
    "reset": numbers(25, 50),
    "scale": "true",
    "scaled": numbers(25, 70),
    "batch": f"5 | {numbers(25, 70)}",
    "bytes": "5 | bytes | testing | 6 | 17",
    "end": "-1",
    "open": "OPEN",
    "over": "COMMITTED | ABORTED | true",
    "completed": "2",
    "transactions": "kept: 0 1 2 3 4",
    "large": f"[6, {9 << 20}, 5]",
    "table": "true | false",
    "put": "1 | 3 | true",
    "iterate": "[3, 2] | false",
    "tables": "[places] | true",
    "times": "200",
    "committed": "77",
    "window": "null | 200",
    "seal": "true | true",
    "sealed": "true",
    "delete": "true | false",
    "all": "true | false",
}


def test_the_java_client_does_here_what_it_does_at_a_real_pravega(
    sites: Sites, tmp_path: Path
) -> None:
    async def main() -> dict[str, str]:
        async with sites() as site:
            return await told("Client", site.port, tmp_path)

    found = asyncio.run(main())
    assert {step: found.get(step) for step in EXPECTED} == EXPECTED
