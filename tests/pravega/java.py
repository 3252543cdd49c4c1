"""Programs with Pravega's own Java client, 0.13.0, as it is."""

import asyncio
import base64
import contextlib
import subprocess
from pathlib import Path

from logdrive.services.pravega.client.controller import Login
from tests.pravega.real import LIBRARY, SERVER

_PROGRAMS = Path(__file__).parent / "client"
_SECONDS = 120


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
    output = b""
    try:
        async with asyncio.timeout(_SECONDS):
            output, _ = await process.communicate()
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
    text = output.decode()
    assert process.returncode == 0, text[-6000:]
    return dict(line.split(": ", 1) for line in text.splitlines() if ": " in line)
