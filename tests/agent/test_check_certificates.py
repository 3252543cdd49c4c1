"""`agent check` shows what a receiver thinks of the agent's certificate: real TLS."""

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.check import check_agent
from agent.config.config import AgentConfig
from logdrive.check import Finding
from logdrive.host.disk import SystemDisk
from logdrive.host.transport import ByteStream
from logdrive.net.certificates import issue_authority
from logdrive.net.tcp import SystemTransport
from tests.support.pki import NOW, Pki


@pytest.fixture(scope="module")
def pki(tmp_path_factory: pytest.TempPathFactory) -> Pki:
    made = Pki.make(tmp_path_factory.mktemp("pki"))
    made.add(
        "stranger",
        ["client.example"],
        authority=issue_authority("another CA", now=NOW, days=30),
    )
    return made


def _checked(pki: Pki, state_dir: Path, stem: str | None) -> Finding:
    """Check a receiver that asks for a certificate, with the one of *stem*."""
    tls: dict[str, Any] = {"ca": pki.path("ca.pem")}
    if stem is not None:
        tls |= {"cert": pki.path(f"{stem}.pem"), "key": pki.path(f"{stem}.key")}

    async def receive(stream: ByteStream) -> None:
        await stream.read()

    async def main() -> Finding:
        transport = SystemTransport()
        listener = await transport.listen("127.0.0.1", 0, pki.server(), receive)
        host = f"127.0.0.1:{listener.address[1]}"
        config = msgspec.convert(
            {
                "agent": {"id": "a", "host": "h", "state_dir": str(state_dir)},
                "stdin": {},
                "output": {"hosts": [host], "tls": tls},
            },
            AgentConfig,
        )
        try:
            checked = await check_agent(config, disk=SystemDisk(), transport=transport)
        finally:
            await listener.close()
        (finding,) = (finding for finding in checked.findings if finding.name == host)
        return finding

    return asyncio.run(main())


def test_a_receiver_that_takes_the_certificate_is_reached(pki: Pki, tmp_path: Path) -> None:
    finding = _checked(pki, tmp_path, "client")
    assert finding.ok
    assert finding.detail.startswith(
        "reached, and its certificate speaks for 127.0.0.1; logdrive/1"
    )


def test_a_receiver_that_asks_for_a_certificate_is_found(pki: Pki, tmp_path: Path) -> None:
    finding = _checked(pki, tmp_path, None)
    assert not finding.ok
    assert "it asks for a client certificate and got none" in finding.detail
    assert finding.detail.endswith("set output.tls.cert and output.tls.key")


def test_a_certificate_that_the_receiver_refuses_is_found(pki: Pki, tmp_path: Path) -> None:
    finding = _checked(pki, tmp_path, "stranger")
    assert not finding.ok
    assert "it does not know the CA of our certificate" in finding.detail
    assert finding.detail.endswith(
        f"(our certificate {pki.path('stranger.pem')}); see output.tls.cert and output.tls.key"
    )
