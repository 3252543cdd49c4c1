"""Certificates for tests: made once, good and bad ones, as files."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography.x509.oid import ExtendedKeyUsageOID

from logdrive.host.transport import ClientTls, ServerTls
from logdrive.net.certificates import Issued, issue_authority, issue_certificate

NOW = datetime.now(UTC)
DIALECTS = ("logdrive/1", "lumberjack/2")


@dataclass(frozen=True)
class Pki:
    """A directory with `ca.pem`, `server.*` and `client.*`, and the keys to sign more.

    The server is localhost and 127.0.0.1, the client is dns:client.example.
    """

    directory: Path
    authority: Issued

    @classmethod
    def make(cls, directory: Path) -> "Pki":
        """Make the CA and the two usual certificates."""
        pki = cls(directory, issue_authority("test CA", now=NOW, days=30))
        (directory / "ca.pem").write_bytes(pki.authority.certificate_pem)
        pki.add("server", ["localhost", "127.0.0.1"], server=True)
        pki.add("client", ["client.example"])
        return pki

    def add(
        self,
        stem: str,
        names: list[str],
        *,
        server: bool = False,
        authority: Issued | None = None,
        age_days: int = 0,
    ) -> None:
        """Write `stem.pem` and `stem.key`, valid for 30 days from *age_days* ago on."""
        usage = ExtendedKeyUsageOID.SERVER_AUTH if server else ExtendedKeyUsageOID.CLIENT_AUTH
        made = issue_certificate(
            authority or self.authority,
            names[0],
            names,
            usage=usage,
            now=NOW - timedelta(days=age_days),
            days=30,
        )
        (self.directory / f"{stem}.pem").write_bytes(made.certificate_pem)
        (self.directory / f"{stem}.key").write_bytes(made.key_pem)

    def path(self, name: str) -> str:
        """Return the path of a file."""
        return str(self.directory / name)

    def client(
        self,
        stem: str | None = "client",
        *,
        ca: str = "ca.pem",
        name: str | None = None,
        alpn: tuple[str, ...] = DIALECTS,
    ) -> ClientTls:
        """Return a client's settings; *stem* None brings no certificate."""
        cert, key = (self.path(f"{stem}.pem"), self.path(f"{stem}.key")) if stem else (None, None)
        return ClientTls(self.path(ca), cert, key, name, alpn)

    def server(
        self, stem: str = "server", *, ca: str | None = "ca.pem", alpn: tuple[str, ...] = DIALECTS
    ) -> ServerTls:
        """Return a server's settings; *ca* None asks for no client certificate."""
        return ServerTls(
            self.path(f"{stem}.pem"), self.path(f"{stem}.key"), self.path(ca) if ca else None, alpn
        )
