"""A bad peer that sends any bytes to a receiver, over Python's own TLS, and the receiver's logs."""

import asyncio
import contextlib
import itertools
import re
import ssl
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.logdrive.net.loopback import eventually
from tests.support.pki import Pki

ANSWER_SECONDS = 20.0
_NUMBERS = itertools.count(1)
LINE_SECONDS = 5.0
SETTLED_SECONDS = 0.15


@dataclass(frozen=True)
class Met:
    """One connection of a bad peer."""

    address: str  # the peer's, as the receiver sees it
    answer: bytes  # all that the receiver sent


def context(pki: Pki, stem: str | None = "client", *, alpn: Sequence[str] = ()) -> ssl.SSLContext:
    """Return a TLS context of the bad peer; without *stem* it has no certificate."""
    made = ssl.create_default_context(cafile=pki.path("ca.pem"))
    if stem is not None:
        made.load_cert_chain(pki.path(f"{stem}.pem"), pki.path(f"{stem}.key"))
    if alpn:
        made.set_alpn_protocols(list(alpn))
    return made


async def say(
    port: int,
    data: bytes,
    *,
    tls: ssl.SSLContext | None,
    hang_up: bool = False,
    until: bytes | None = None,
) -> Met:
    """Connect, send *data*, and read to the end, or to *until*; with *hang_up*, close at once.

    Each comes from a loopback address of its own, as what one peer does again is logged once a
    minute.
    """
    reader, writer = await asyncio.open_connection(
        "127.0.0.1",
        port,
        ssl=tls,
        server_hostname="localhost" if tls else None,
        local_addr=(f"127.1.0.{next(_NUMBERS)}", 0),
    )
    host, local = writer.get_extra_info("sockname")[:2]
    answer = bytearray()
    try:
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            async with asyncio.timeout(ANSWER_SECONDS):
                listening = (
                    None if hang_up else asyncio.ensure_future(_listen(reader, answer, until))
                )
                writer.write(data)
                await writer.drain()
                if listening is not None:
                    await listening
    finally:
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError, TimeoutError):
            await writer.wait_closed()
    return Met(f"{host}:{local}", bytes(answer))


async def _listen(reader: asyncio.StreamReader, answer: bytearray, until: bytes | None) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while (until is None or until not in answer) and (data := await reader.read(65536)):
            answer += data


class Said:
    """What a process writes to standard error from now on."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._from = path.stat().st_size

    def lines(self) -> list[str]:
        """Return the whole lines that came."""
        with self._path.open("rb") as file:
            file.seek(self._from)
            text = file.read().decode()
        return text[: text.rfind("\n") + 1].splitlines()

    async def one_line(self, *words: str) -> str:
        """Return the one line that came, which must hold each of *words*, regular expressions; wait
        for it, and whether more come.
        """
        with contextlib.suppress(TimeoutError):
            await eventually(self.lines, LINE_SECONDS)
        await asyncio.sleep(SETTLED_SECONDS)
        lines = self.lines()
        assert len(lines) == 1, f"{len(lines)} lines instead of one:\n" + "\n".join(lines)
        for word in words:
            assert re.search(word, lines[0]), f"{word!r} is not in: {lines[0]}"
        return lines[0]
