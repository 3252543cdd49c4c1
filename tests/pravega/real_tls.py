"""What a real Pravega needs to speak TLS with certificates of `logdrive certs`: PEM files for
clients, Java key stores within.
"""

import subprocess
from pathlib import Path

_PASSWORD = "changeit"


def tls_properties(directory: Path, certificates: Path) -> tuple[str, ...]:
    """Return the server's properties, key stores having been made in *directory*.

    Clients see the certificates given. The parts of the server meet over a ZooKeeper of their own,
    where each shows one certificate in both roles, which a server's alone is not good for: they
    have another.
    """
    keys, trusted, password, exported = (
        directory / name for name in ("keys.p12", "trusted.p12", "password", "inner.pem")
    )
    password.write_text(f"{_PASSWORD}\n")
    names = ("-dname", "CN=localhost", "-ext", "san=dns:localhost,ip:127.0.0.1")
    _keytool(keys, "-genkeypair", "-alias", "inner", "-keyalg", "EC", *names)
    _keytool(keys, "-exportcert", "-rfc", "-alias", "inner", "-file", str(exported))
    _keytool(trusted, "-importcert", "-noprompt", "-alias", "inner", "-file", str(exported))
    _keytool(
        trusted, "-importcert", "-noprompt", "-alias", "ca", "-file", str(certificates / "ca.pem")
    )
    found = {
        "enable": "true",
        "privateKey.location": certificates / "server.key",
        "certificate.location": certificates / "server.pem",
        "keyStore.location": keys,
        "keyStore.pwd.location": password,
        "trustStore.location": trusted,
    }
    return tuple(f"singlenode.security.tls.{name}={value}" for name, value in found.items())


def _keytool(store: Path, *arguments: str) -> None:
    command = [
        "keytool",
        *arguments,
        "-keystore",
        str(store),
        "-storetype",
        "PKCS12",
        "-storepass",
        _PASSWORD,
    ]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
