"""Programs with Pravega's own Java client, 0.13.0, as it is."""

import asyncio
import base64
import contextlib
import signal
import subprocess
from pathlib import Path

from logdrive.services.pravega.client.controller import Login
from tests.pravega.real import LIBRARY, SERVER

_PROGRAMS = Path(__file__).parent / "client"
_SECONDS = 240  # it takes 35 on two idle cores, and shares them with other JVMs here
_DUMP_SECONDS = 5


async def told(
    program: str,
    port: int,
    directory: Path,
    *,
    login: Login | None = None,
    trusted: Path | None = None,
) -> dict[str, str]:
    """Return what each step of *program* came to at the controller's *port*, which is reached over
    TLS where a certificate is *trusted*.
    """
    settings = {"logback.configurationFile": str(SERVER / "logback.xml")}
    if login is not None:
        token = base64.b64encode(f"{login.user}:{login.password}".encode()).decode()
        settings |= {"pravega.client.auth.method": "Basic", "pravega.client.auth.token": token}
    address = (
        [f"tcp://127.0.0.1:{port}"]
        if trusted is None
        else [f"tls://127.0.0.1:{port}", str(trusted)]
    )
    command = [
        "java",
        "-Xmx512m",
        "-XX:+UseSerialGC",
        "-XX:TieredStopAtLevel=1",
        *(f"-D{name}={value}" for name, value in settings.items()),
        "-cp",
        f"{LIBRARY}/*",
        str(_PROGRAMS / f"{program}.java"),
        *address,
    ]
    process = await asyncio.create_subprocess_exec(
        *command, cwd=directory, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    assert process.stdout is not None
    said = asyncio.create_task(_read(process.stdout, output := bytearray()))
    try:
        async with asyncio.timeout(_SECONDS):
            await asyncio.shield(said)
            await process.wait()
    except TimeoutError:
        size, steps = len(output), output.decode()[-6000:]
        process.send_signal(signal.SIGQUIT)  # it tells where its threads are
        await asyncio.wait([said], timeout=_DUMP_SECONDS)
        threads = output[size:].decode()
        raise AssertionError(f"no end within {_SECONDS} s: {steps}\n{threads}") from None
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await asyncio.wait([said])
    text = output.decode()
    assert process.returncode == 0, text[-6000:]
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)


async def _read(stream: asyncio.StreamReader, into: bytearray) -> None:
    """Add what *stream* brings *into* it, until its end."""
    while data := await stream.read(65_536):
        into += data
