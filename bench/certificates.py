"""The certificates that every benchmarked connection uses, made as `logdrive certs` makes them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from logdrive.net.certificates import write_certificates


@dataclass(frozen=True, slots=True)
class Certificates:
    """PEM files of one small authority, a server named localhost and a client."""

    directory: Path

    @property
    def ca(self) -> Path:
        return self.directory / "ca.pem"

    @property
    def server_cert(self) -> Path:
        return self.directory / "server.pem"

    @property
    def server_key(self) -> Path:
        return self.directory / "server.key"

    @property
    def client_cert(self) -> Path:
        return self.directory / "client.pem"

    @property
    def client_key(self) -> Path:
        return self.directory / "client.key"


def certificates(directory: Path) -> Certificates:
    """Return the certificates in *directory*, made if they are not there."""
    if not (directory / "client.key").exists():
        write_certificates(
            str(directory),
            ["localhost", "127.0.0.1"],
            client="bench",
            days=30,
            now=datetime.now(UTC),
            force=True,
        )
    return Certificates(directory)
