"""Tokens are JWTs as Pravega's: HS512, with a claim for each stream (specification, section 6)."""

import asyncio
import base64
from collections.abc import Mapping
from typing import Any

import jwt
import pytest

from logdrive.services.auth.permissions import Permission
from logdrive.services.auth.token_verifier import TokenRefusedError, TokenVerifier
from logdrive.services.auth.tokens import TokenSigner
from tests.support.pravega.peer import virtually
from tests.support.virtual_time import EPOCH_MS, VirtualClock

SECRET = b"s" * 64
R, U, NO = Permission.READ, Permission.READ_UPDATE, Permission.NONE
S = "logs/app/0.#epoch.0"
ALL = {"prn::/scope:logs/stream:app": "READ_UPDATE"}


def tokens(secret: bytes = SECRET) -> TokenSigner:
    return TokenSigner(secret, VirtualClock(), 600_000)


def made(claims: Mapping[str, Any], secret: bytes = SECRET, algorithm: str = "HS512") -> str:
    usual = {"sub": "segmentstoreresource", "aud": "segmentstore", "iat": EPOCH_MS // 1000}
    return jwt.encode(
        {name: claim for name, claim in (usual | dict(claims)).items() if claim is not None},
        secret,
        algorithm=algorithm,
    )


@virtually
async def test_a_token_has_the_claims_that_pravega_gives_it() -> None:
    token = tokens().sign_token("logs", {"app": R})
    assert jwt.get_unverified_header(token)["alg"] == "HS512"
    claims = jwt.decode(token, options={"verify_signature": False})
    issued = claims["iat"]
    assert claims == {
        "sub": "segmentstoreresource",
        "aud": "segmentstore",
        "iat": issued,
        "exp": issued + 600 + (EPOCH_MS % 1000 > 0),
        "prn::/scope:logs/stream:app": "READ",
    }


@virtually
async def test_a_token_allows_what_it_grants_on_segments_of_its_stream_only() -> None:
    reading, verifier = (
        tokens().sign_token("logs", {"app": R}),
        TokenVerifier("pass", VirtualClock(), tokens()),
    )
    for segment in (S, "logs/app/1.#epoch.1#transaction.00", "logs/app/0.#epoch.0#transient.0.1"):
        assert verifier.verify_token(reading, [segment], R)
        with pytest.raises(TokenRefusedError, match="READ_UPDATE"):
            verifier.verify_token(reading, [segment], U)
    for segment in ("logs/app2/0.#epoch.0", "logs2/app/0.#epoch.0", "app/0", "app", "logs/app", ""):
        with pytest.raises(TokenRefusedError, match="does not allow"):
            verifier.verify_token(reading, [S, segment], R)


@virtually
async def test_a_token_expires_at_its_time() -> None:
    signer = tokens()
    token, verifier = (
        signer.sign_token("logs", {"app": U}),
        TokenVerifier("pass", VirtualClock(), signer),
    )
    assert verifier.verify_token(token, [S], U)
    await asyncio.sleep(598)
    assert verifier.verify_token(token, [S], U)
    await asyncio.sleep(3)
    with pytest.raises(TokenRefusedError) as told:
        verifier.verify_token(token, [S], U)
    assert told.value.expired


@pytest.mark.parametrize(
    "token",
    [
        "",
        "x",
        "a.b.c",
        made(ALL, b"f" * 64),
        made(ALL, algorithm="HS256"),
        made({**ALL, "aud": "others"}),
        made({**ALL, "aud": None}),
        made({**ALL, "sub": "others"}),
        made({**ALL, "exp": "never"}),
        jwt.encode({**ALL, "aud": "segmentstore"}, "", algorithm="none"),
        made({**ALL, "exp": float("inf")}),
        made({**ALL, "exp": [1]}),
        made({**ALL, "aud": {"segmentstore": 1}}),
        f"{base64.urlsafe_b64encode(b'[' * 40_000).decode()}.e30.e30",
        "\ud800.\udc00.x",
        made({"prn::/scope:logs/stream:app": "ALL"}),
        made({"prn::/scope:logs/stream:app": 2}),
        made({}),
    ],
)
def test_forged_foreign_and_empty_tokens_are_refused(token: str) -> None:
    verifier = TokenVerifier("pass", VirtualClock(), tokens())
    with pytest.raises(TokenRefusedError) as told:
        verifier.verify_token(token, [S], R)
    assert not told.value.expired


@pytest.mark.parametrize(
    "resource", ["logs/app", "*", "prn::*", "prn::/scope:logs/*", "prn::/scope:logs/stream:app"]
)
def test_each_notation_of_resources_that_pravega_has_is_read(resource: str) -> None:
    assert (
        TokenVerifier("pass", VirtualClock(), tokens()).verify_token(
            made({resource: "READ_UPDATE"}), [S], U
        )
        is None
    )


def test_without_a_signer_only_the_local_token_is_valid_and_it_allows_everything() -> None:
    verifier = TokenVerifier("pass", VirtualClock())
    assert verifier.verify_token("pass", [S, "x"], U) is None
    for token in ("", "pas", made({"*": "READ"})):
        with pytest.raises(TokenRefusedError):
            verifier.verify_token(token, [S], R)
