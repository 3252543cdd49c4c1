"""Who gets in: TLS, users of the users file, a revision that the operator fixed."""

from pathlib import Path

import pytest

from logdrive.services.auth.passwords import hash_password
from tests.interop.iggy.clients import (
    ALL,
    CLASSIC,
    IGGY_PY,
    VSR,
    ClientError,
    Driven,
    StockClient,
    logged_in,
)
from tests.interop.iggy.conftest import named
from tests.support.iggy_face import IggyFace

pytestmark = pytest.mark.process

SALT = b"0" * 16


def _auth(directory: Path) -> str:
    """Write users and a secret; return the table that names them."""
    grants = {"writer": '"logs/*" = "READ_UPDATE"', "reader": '"logs/*" = "READ"'}
    (directory / "users.toml").write_text(
        "".join(
            f'[[user]]\nname = "{name}"\npassword = "{hash_password(f"{name}-pw", SALT)}"\n'
            f"may = {{ {may} }}\n"
            for name, may in {**grants, "admin": '"*" = "READ_UPDATE"'}.items()
        )
    )
    (directory / "secret").write_text("s" * 64)
    return f'[listen.auth]\nusers = "{directory}/users.toml"\ntoken_secret = "{directory}/secret"\n'


@pytest.mark.parametrize("client", ALL, ids=named)
def test_users_of_the_users_file_do_what_they_were_granted(
    tmp_path: Path, client: StockClient
) -> None:
    with IggyFace(tmp_path, more=_auth(tmp_path)) as face:
        with Driven(client, face.address) as nobody:
            nobody.call("connect")
            with pytest.raises(ClientError):
                nobody.call("login", "iggy", "iggy")
        with logged_in(client, face.address, "admin", "admin-pw") as admin:
            for stream in ("logs", "other"):
                admin.call("create_stream", stream)
                admin.call("create_topic", stream, "events", 1)
        with logged_in(client, face.address, "writer", "writer-pw") as writer:
            writer.send("logs", "events", 0, [b"x"])
            with pytest.raises(ClientError):
                writer.send("other", "events", 0, [b"x"])
        with logged_in(client, face.address, "reader", "reader-pw") as reader:
            assert reader.payloads("logs", "events") == [b"x"]
            with pytest.raises(ClientError):
                reader.send("logs", "events", 0, [b"y"])


def test_a_client_comes_by_tls(tmp_path: Path, certificates: Path) -> None:
    tls = (
        f'[listen.iggy.tls]\ncert = "{certificates}/server.pem"\n'
        f'key = "{certificates}/server.key"\nclients = "any"\n'
    )
    with IggyFace(tmp_path, more=tls) as face, Driven(VSR, face.address) as driven:
        ca = str(certificates / "ca.pem")
        driven.call("connect_by_tls", face.address, ca, "localhost")
        driven.call("login", "iggy", "iggy")
        driven.call("create_stream", "s")
        assert driven.call("stream", "s")["name"] == "s"


def test_a_fixed_revision_serves_its_clients_and_no_others(tmp_path: Path) -> None:
    with IggyFace(tmp_path, 'revision = "R1"') as face:
        with logged_in(IGGY_PY, face.address) as driven:
            driven.call("create_stream", "s")
            driven.call("create_topic", "s", "t", 1)
            driven.send("s", "t", 0, [b"x"])
            assert driven.payloads("s", "t") == [b"x"]
        with logged_in(CLASSIC, face.address) as driven, pytest.raises(ClientError):
            driven.call("create_topic", "s", "other", 1)
        face.check_running()
