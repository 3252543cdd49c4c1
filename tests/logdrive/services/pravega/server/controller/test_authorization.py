"""Authorization of calls to the controller, and the tokens that it signs.

Specification, section 6.
"""

import asyncio
import base64
import contextlib
from collections.abc import AsyncIterator
from random import Random
from typing import Any

import grpc
import jwt
import pytest

from logdrive.services.auth.open import Access
from logdrive.services.auth.passwords import hash_password
from logdrive.services.auth.token_verifier import TokenVerifier
from logdrive.services.auth.tokens import TokenSigner
from logdrive.services.auth.users import UserConfig, Users, UsersConfig
from logdrive.services.pravega.server.controller.authorization import names_in_request
from logdrive.wire.pravega.controller import controller_pb2 as pb
from logdrive.wire.pravega.controller.methods import METHODS
from tests.logdrive.services.pravega.server.controller.caller import Caller, calling
from tests.support.inline import InlineExecutor
from tests.support.virtual_time import VirtualClock

INFO = pb.StreamInfo(scope="logs", stream="app")
CONFIG = pb.StreamConfig(streamInfo=INFO, scalingPolicy=pb.ScalingPolicy(minNumSegments=1))
HASH = str(hash_password("secret", b"0123456789abcdef"))
SECRET = b"s" * 64


def access() -> Access:
    grants = {
        "root": {"*": "READ_UPDATE"},
        "viewer": {"logs/app": "READ"},
        "writer": {"logs/app": "READ_UPDATE"},
        "fleet": {"logs/*": "READ_UPDATE"},
        "tables": {"logs/app_kvtable": "READ_UPDATE"},
        "both": {"logs/app": "READ", "logs/app_kvtable": "READ_UPDATE"},
    }
    users = UsersConfig(
        user=tuple(UserConfig(name=name, password=HASH, may=may) for name, may in grants.items())
    )
    tokens = TokenSigner(SECRET, VirtualClock(), 600_000)
    return Access(
        Users(users, InlineExecutor(), Random(1)),
        tokens,
        TokenVerifier("pass", VirtualClock(), tokens),
    )


def login(name: str, password: str = "secret") -> str:
    return f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"


async def refused(
    call: Caller, method: str, request: Any, who: str | None
) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as told:
        await call(method, request, who)
    return told.value.code(), told.value.details() or ""


@contextlib.asynccontextmanager
async def filled() -> AsyncIterator[Caller]:
    async with calling(access=access()) as call:
        for name in ("logs", "other"):
            await call("createScope", pb.ScopeInfo(scope=name), login("root"))
        await call("createStream", CONFIG, login("root"))
        await call(
            "createStream",
            pb.StreamConfig(streamInfo=pb.StreamInfo(scope="logs", stream="b")),
            login("root"),
        )
        yield call


def claims(token: str) -> dict[str, str]:
    found = jwt.decode(
        token,
        SECRET,
        algorithms=["HS512"],
        audience="segmentstore",
        options={"verify_exp": False, "verify_iat": False},
    )
    return {
        name.removeprefix("prn::/scope:"): value
        for name, value in found.items()
        if name.startswith("prn::")
    }


def test_every_method_needs_a_login() -> None:
    async def main() -> None:
        async with filled() as call:
            for name, method in METHODS.items():
                assert (await refused(call, name, method.request(), None))[
                    0
                ] == grpc.StatusCode.UNAUTHENTICATED, name
            for who in (login("root", "guess"), login("nobody"), "Bearer x"):
                assert (await refused(call, "sealStream", INFO, who))[
                    0
                ] == grpc.StatusCode.UNAUTHENTICATED
            assert (
                await call("checkScopeExists", pb.ScopeInfo(scope="logs"), login("root"))
            ).exists

    asyncio.run(main())


def test_a_method_whose_request_names_nothing_is_refused() -> None:
    free = {name for name, method in METHODS.items() if not names_in_request(method.request())}
    assert free == {"listScopes", "getControllerServerList"} & METHODS.keys()


def test_a_user_who_may_read_can_read_and_not_change() -> None:
    async def main() -> None:
        async with filled() as call:
            viewer, at = login("viewer"), pb.SegmentId(streamInfo=INFO, segmentId=0)
            assert len((await call("getCurrentSegments", INFO, viewer)).segmentRanges) == 1
            assert (await call("getURI", at, viewer)).port
            assert (await call("isSegmentValid", at, viewer)).response
            assert (await call("checkStreamExists", INFO, viewer)).exists
            for method, request in (
                (
                    "createStream",
                    pb.StreamConfig(streamInfo=pb.StreamInfo(scope="logs", stream="c")),
                ),
                ("updateStream", CONFIG),
                ("truncateStream", pb.StreamCut(streamInfo=INFO, cut={0: 0})),
                ("sealStream", INFO),
                ("deleteStream", INFO),
                ("scale", pb.ScaleRequest(streamInfo=INFO)),
                ("createTransaction", pb.CreateTxnRequest(streamInfo=INFO, lease=1000)),
                (
                    "noteTimestampFromWriter",
                    pb.TimestampFromWriter(writer="w", position=pb.StreamCut(streamInfo=INFO)),
                ),
                ("removeWriter", pb.RemoveWriterRequest(writer="w", stream=INFO)),
                ("createScope", pb.ScopeInfo(scope="mine")),
                ("deleteScope", pb.ScopeInfo(scope="other")),
                ("getCurrentSegments", pb.StreamInfo(scope="logs", stream="b")),
                ("getURI", pb.SegmentId(streamInfo=pb.StreamInfo(scope="other", stream="app"))),
            ):
                code, words = await refused(call, method, request, viewer)
                assert code == grpc.StatusCode.PERMISSION_DENIED, method
                assert "viewer may not READ" in words
                assert method in words
            root = login("root")
            assert list((await call("listScopes", pb.ScopesRequest(), root)).scopes) == [
                "logs",
                "other",
            ]
            assert (
                await call("checkStreamExists", pb.StreamInfo(scope="logs", stream="c"), root)
            ).exists is False
            assert len((await call("getCurrentSegments", INFO, root)).segmentRanges) == 1

    asyncio.run(main())


def test_lists_have_only_what_the_user_may_read() -> None:
    async def main() -> None:
        async with filled() as call:
            of_logs = pb.StreamsInScopeRequest(scope=pb.ScopeInfo(scope="logs"))
            all_scopes, all_streams = ["logs", "other"], ["app", "b"]
            seen = {
                "root": (all_scopes, all_streams),
                "viewer": (["logs"], ["app"]),
                "fleet": (["logs"], all_streams),
            }
            for name, (scopes, streams) in seen.items():
                assert (
                    list((await call("listScopes", pb.ScopesRequest(), login(name))).scopes)
                    == scopes
                )
                assert [
                    info.stream
                    for info in (await call("listStreamsInScope", of_logs, login(name))).streams
                ] == streams
            hidden = pb.StreamsInScopeRequest(scope=pb.ScopeInfo(scope="other"))
            assert (await refused(call, "listStreamsInScope", hidden, login("viewer")))[
                0
            ] == grpc.StatusCode.PERMISSION_DENIED

    asyncio.run(main())


def test_tokens_grant_what_was_requested_and_no_more_than_the_user_has() -> None:
    async def main() -> None:
        async with filled() as call:
            asked = pb.StreamInfo.AccessOperation

            async def token(name: str, operation: int) -> dict[str, str]:
                info = pb.StreamInfo(scope="logs", stream="app", accessOperation=operation)  # type: ignore[arg-type] # a number does
                return claims((await call("getDelegationToken", info, login(name))).delegationToken)

            everything, reading = {"logs/stream:app": "READ_UPDATE"}, {"logs/stream:app": "READ"}
            for operation in (asked.UNSPECIFIED, asked.ANY, asked.WRITE, asked.READ_WRITE):
                assert await token("writer", operation) == everything
            assert await token("writer", asked.READ) == reading
            for operation in (asked.UNSPECIFIED, asked.ANY, asked.READ):
                assert await token("viewer", operation) == reading
            for operation in (asked.WRITE, asked.READ_WRITE):
                wanted = pb.StreamInfo(scope="logs", stream="app", accessOperation=operation)
                assert (await refused(call, "getDelegationToken", wanted, login("viewer")))[
                    0
                ] == grpc.StatusCode.PERMISSION_DENIED
            current = await call("getCurrentSegments", INFO, login("viewer"))
            assert claims(current.delegationToken) == reading
            followers = await call(
                "getSegmentsImmediatelyFollowing", pb.SegmentId(streamInfo=INFO), login("fleet")
            )
            assert claims(followers.delegationToken) == everything
            begun = await call(
                "createTransaction",
                pb.CreateTxnRequest(streamInfo=INFO, lease=10_000),
                login("fleet"),
            )
            assert claims(begun.delegationToken) == everything

    asyncio.run(main())


def test_a_token_is_also_for_the_key_value_table_of_that_name() -> None:
    """The Java client asks for tokens of tables by the table's name, as if it were a stream's;
    their segments lie under another.
    """

    async def main() -> None:
        async with filled() as call:
            writing = pb.StreamInfo(
                scope="logs", stream="app", accessOperation=pb.StreamInfo.READ_WRITE
            )
            for name, held in (
                (
                    "fleet",
                    {"logs/stream:app": "READ_UPDATE", "logs/stream:app_kvtable": "READ_UPDATE"},
                ),
                ("tables", {"logs/stream:app_kvtable": "READ_UPDATE"}),
                ("both", {"logs/stream:app": "READ", "logs/stream:app_kvtable": "READ_UPDATE"}),
            ):
                assert (
                    claims((await call("getDelegationToken", writing, login(name))).delegationToken)
                    == held
                )
            writing.stream = "b"
            for name in ("tables", "viewer"):
                assert (await refused(call, "getDelegationToken", writing, login(name)))[
                    0
                ] == grpc.StatusCode.PERMISSION_DENIED
            assert (await refused(call, "getCurrentSegments", INFO, login("tables")))[
                0
            ] == grpc.StatusCode.PERMISSION_DENIED

    asyncio.run(main())


def test_names_with_slashes_are_refused() -> None:
    async def main() -> None:
        async with filled() as call:
            for scope, stream in (("logs", "app/stream:b"), ("logs/stream:app", "b")):
                info = pb.StreamInfo(scope=scope, stream=stream)
                assert (await refused(call, "getDelegationToken", info, login("root")))[
                    0
                ] == grpc.StatusCode.PERMISSION_DENIED

    asyncio.run(main())
