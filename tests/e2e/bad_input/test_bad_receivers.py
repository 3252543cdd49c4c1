"""What an agent says of a receiver that talks nonsense: one clear message, no acknowledgement taken
for what it is not, no loss.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from uuid import UUID

import pytest

from logdrive.errors import TransientError
from logdrive.host.transport import ByteStream
from logdrive.net.tcp import SystemTransport
from logdrive.wire.lumberjack.frames import (
    CONNECTION,
    REFUSAL,
    AckFrame,
    PositionFrame,
    RefusalFrame,
    WindowFrame,
)
from tests.support.installation import command
from tests.support.pki import Pki

pytestmark = pytest.mark.process

STORE = UUID(int=0x5)
CONTENT = b"".join(b"line %d\n" % number for number in range(2000))

# What is said to the first bytes that come: what the agent must say of it.
NONSENSE: dict[str, tuple[bytes, str]] = {
    "garbage": (b"HTTP/1.1 400 Bad Request\r\n\r\n", "begins b'HT'"),
    "a writer's frame": (WindowFrame(5).encode(), "begins b'2W'"),
    "an acknowledgement of what was never sent": (AckFrame(1_000_000).encode(), "acknowledge"),
    "a position of nobody": (
        PositionFrame(77, 0, STORE).encode(),
        "the index 77, which names no source",
    ),
    "a refusal of 4 GiB": (
        REFUSAL.pack(b"2E", CONNECTION, 1, 2**32 - 1),
        "a refusal of 4294967295 bytes, over",
    ),
    "a refusal without a known code": (
        RefusalFrame(CONNECTION, 999, "no\x1b[2Jway").encode(),
        r"refused by the receiver (E 999): no\x1b[2Jway",
    ),
    "a closed connection": (b"", "closed"),
    "half a frame": (PositionFrame(0, 0, STORE).encode()[:9], "closed"),
}


async def _ship(
    pki: Pki, path: Path, accept: Callable[[ByteStream], Awaitable[None]]
) -> tuple[int, list[str]]:
    """Let an agent ship *path* to a receiver that *accept* plays; return its exit code and what it
    said.
    """
    listener = await SystemTransport().listen("127.0.0.1", 0, pki.server(), accept)
    options = [
        "--ca",
        pki.path("ca.pem"),
        "--cert",
        pki.path("client.pem"),
        "--key",
        pki.path("client.key"),
        "--server-name",
        "localhost",
    ]
    process = await asyncio.create_subprocess_exec(
        *command(
            "agent",
            "ship",
            str(path),
            "--to",
            f"127.0.0.1:{listener.address[1]}",
            *options,
            "--give-up",
            "4",
        ),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    _, said = await asyncio.wait_for(process.communicate(), 40)
    await listener.close()
    assert process.returncode is not None
    return process.returncode, said.decode().splitlines()


def _answering(data: bytes) -> Callable[[ByteStream], Awaitable[None]]:
    async def accept(stream: ByteStream) -> None:
        try:
            await stream.read()
            await stream.write([data] if data else [])
            await asyncio.sleep(0.2)
            await stream.close()
        except TransientError:
            pass

    return accept


def test_receivers_that_talk_nonsense_are_told_apart_in_one_line_each(
    tmp_path: Path, pki: Pki
) -> None:
    path = tmp_path / "app.log"
    path.write_bytes(CONTENT)

    async def scene() -> dict[str, tuple[int, list[str]]]:
        ships = [_ship(pki, path, _answering(data)) for data, _ in NONSENSE.values()]
        return dict(zip(NONSENSE, await asyncio.gather(*ships), strict=True))

    for name, (code, said) in asyncio.run(scene()).items():
        text = "\n".join([f"{name}:", *said])
        assert code == 1, text
        assert "Traceback" not in text
        last = said[-1]
        assert last.startswith("logdrive: "), text
        assert NONSENSE[name][1] in last, text
        assert last.isprintable()
