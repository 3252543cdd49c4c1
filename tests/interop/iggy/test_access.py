"""Who gets in: TLS, users of the users file, tokens, a revision that the operator fixed."""

import socket
from pathlib import Path

import pytest

from logdrive.services.auth.passwords import hash_password
from logdrive.wire.iggy.frames import ReplyFrames, encode_request_frame
from logdrive.wire.iggy.limits import NEVER
from logdrive.wire.iggy.replies_codec import decode_reply
from logdrive.wire.iggy.requests import CreateToken, IggyLogin
from logdrive.wire.iggy.requests_codec import encode_request
from logdrive.wire.iggy.revision import Revision
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
from tests.support.iggy.face import IggyFace

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


def _new_token(port: int) -> str:
    """Log in as the clients of R2c do, who can't ask for a token; return a new one."""
    requests = (IggyLogin("iggy", "iggy", "0.10.0", ""), CreateToken("for-tests", NEVER))
    frames, payload = ReplyFrames(), memoryview(b"")
    with socket.create_connection(("127.0.0.1", port), 20) as connection:
        for request in requests:
            connection.sendall(encode_request_frame(*encode_request(Revision.R2C, request)))
            while (reply := frames.next_frame()) is None:
                frames.receive(connection.recv(4096))
            assert reply.status == 0
            payload = reply.payload
    return decode_reply(Revision.R2C, CreateToken("for-tests"), payload).token


def _create_by_token(client: StockClient, address: str, token: str, stream: str) -> None:
    with Driven(client, address) as driven:
        driven.call("connect_with", f"iggy+tcp://{token}@{address}")
        driven.call("create_stream", stream)


@pytest.mark.parametrize("client", [CLASSIC, VSR], ids=named)
def test_a_personal_access_token_logs_in_also_after_a_restart(
    tmp_path: Path, client: StockClient
) -> None:
    with IggyFace(tmp_path) as face:
        token = _new_token(face.port)
        for stream in ("before", "after"):
            _create_by_token(client, face.address, token, stream)
            face.kill()
            face.start()
        with pytest.raises(ClientError):
            _create_by_token(client, face.address, f"x{token}", "third")
        with logged_in(client, face.address) as driven:
            found = [driven.call("stream", name) for name in ("before", "after", "third")]
    assert [each is not None for each in found] == [True, True, False]
