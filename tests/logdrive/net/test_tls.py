"""Certificate files that can't be used give one message with the file and the remedy."""

import datetime
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
)

from logdrive.errors import ConfigError
from logdrive.host.transport import ClientTls, ServerTls
from logdrive.net.tls import client_context, server_context
from tests.support.pki import Pki


def message_of(error: pytest.ExceptionInfo[ConfigError]) -> str:
    (mistake,) = error.value.mistakes
    return str(mistake)


@pytest.mark.parametrize("key", ["cert", "key", "ca"])
@pytest.mark.parametrize(
    "content",
    [None, b"", b"no PEM", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"],
)
def test_a_file_missing_or_unfit_is_named_with_its_key(
    pki: Pki, tmp_path: Path, key: str, content: bytes | None
) -> None:
    path = tmp_path / "given.pem"
    if content is not None:
        path.write_bytes(content)
    paths = {
        "cert": pki.path("server.pem"),
        "key": pki.path("server.key"),
        "ca": pki.path("ca.pem"),
    } | {key: str(path)}
    loads: list[Callable[[], object]] = [
        lambda: server_context(ServerTls(paths["cert"], paths["key"], paths["ca"])),
        lambda: client_context(ClientTls(paths["ca"], paths["cert"], paths["key"])),
    ]
    for load in loads:
        with pytest.raises(ConfigError) as error:
            load()
        assert message_of(error).startswith(f"{key} = {path}: ")
        assert "\n" not in message_of(error)
        assert ("No such file" in message_of(error)) == (content is None)


def test_a_directory_is_no_certificate(pki: Pki, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Is a directory"):
        client_context(ClientTls(str(tmp_path)))


def test_a_key_of_another_certificate_is_refused(pki: Pki) -> None:
    with pytest.raises(ConfigError) as error:
        server_context(
            ServerTls(pki.path("server.pem"), pki.path("client.key"), pki.path("ca.pem"))
        )
    assert message_of(error).startswith(
        f"key = {pki.path('client.key')}: it is not the private key of"
    )


def test_a_key_with_a_passphrase_is_refused_without_a_prompt(pki: Pki, tmp_path: Path) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    path = tmp_path / "secret.key"
    path.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    )
    with pytest.raises(ConfigError) as error:
        client_context(ClientTls(pki.path("ca.pem"), pki.path("client.pem"), str(path)))
    assert "without a passphrase" in message_of(error)


@pytest.mark.parametrize(
    ("cert", "key", "missing"), [("client.pem", None, "key"), (None, "client.key", "cert")]
)
def test_a_certificate_or_a_key_alone_is_refused(
    pki: Pki, cert: str | None, key: str | None, missing: str
) -> None:
    with pytest.raises(ConfigError) as error:
        client_context(
            ClientTls(pki.path("ca.pem"), cert and pki.path(cert), key and pki.path(key))
        )
    assert message_of(error).startswith(f"{missing}: cert and key go together")


def test_certificates_are_made_for_now_and_no_longer_than_their_ca(pki: Pki) -> None:
    made = pki.authority.certificate
    assert (
        made.not_valid_before_utc < datetime.datetime.now(datetime.UTC) < made.not_valid_after_utc
    )
