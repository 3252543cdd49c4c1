"""Requests without a valid token are refused (specification, sections 1.4, 2.3 and 2.8)."""

import asyncio
import inspect

import pytest

from logdrive.services.auth.permissions import Permission
from logdrive.services.auth.token_verifier import TokenVerifier
from logdrive.services.auth.tokens import TokenSigner
from logdrive.services.pravega.server import endpoint
from logdrive.wire.pravega import appends, own, segments, tables
from logdrive.wire.pravega.appends import AppendBlockEnd, AppendSetup, DataAppended, SetupAppend
from logdrive.wire.pravega.control import (
    TOKEN_CHECK_FAILED,
    TOKEN_EXPIRED,
    AuthTokenCheckFailed,
    Hello,
    KeepAlive,
)
from logdrive.wire.pravega.layout import Message
from logdrive.wire.pravega.own import LocateAppends
from logdrive.wire.pravega.segments import (
    CreateSegment,
    CreateTransientSegment,
    DeleteSegment,
    GetSegmentAttribute,
    GetStreamSegmentInfo,
    LocateOffset,
    MergeSegments,
    MergeSegmentsBatch,
    ReadSegment,
    SealSegment,
    SegmentCreated,
    SegmentRead,
    StreamSegmentInfo,
    TruncateSegment,
    UpdateSegmentAttribute,
    UpdateSegmentPolicy,
)
from logdrive.wire.pravega.tables import (
    CreateTableSegment,
    DeleteTableSegment,
    GetTableSegmentInfo,
    ReadTable,
    ReadTableEntries,
    ReadTableEntriesDelta,
    ReadTableKeys,
    RemoveTableKeys,
    UpdateTableEntries,
)
from tests.support.pravega.framings import W
from tests.support.pravega.peer import Peer, S, World, virtually, world
from tests.support.virtual_time import VirtualClock

OTHER = "logs/other/0.#epoch.0"
SIGNER = TokenSigner(b"s" * 64, VirtualClock(), 600_000)
R, U = Permission.READ, Permission.READ_UPDATE


def looking(token: str) -> list[Message]:
    return [
        ReadSegment(S, 0, 10, token, 7),
        GetStreamSegmentInfo(7, S, token),
        GetSegmentAttribute(7, S, W, token),
        LocateOffset(7, S, 0, token),
        LocateAppends(7, S, 0, 2, 10, "", token),
        GetTableSegmentInfo(7, S, token),
        ReadTable(7, S, token, ()),
        ReadTableKeys(7, S, token, 1),
        ReadTableEntries(7, S, token, 1),
        ReadTableEntriesDelta(7, S, token, 0, 1),
    ]


def changing(token: str) -> list[Message]:
    return [
        SetupAppend(7, W, S, token),
        CreateSegment(7, S, 0, 0, token),
        CreateTransientSegment(7, W, S, token),
        SealSegment(7, S, token),
        TruncateSegment(7, S, 1, token),
        DeleteSegment(7, S, token),
        UpdateSegmentAttribute(7, S, W, 1, 0, token),
        UpdateSegmentPolicy(7, S, 1, 1, token),
        MergeSegments(7, S, f"{S}#transaction.0", token),
        MergeSegmentsBatch(7, S, (f"{S}#transaction.0",), token),
        CreateTableSegment(7, S, token),
        DeleteTableSegment(7, S, False, token),
        UpdateTableEntries(7, S, token, ()),
        RemoveTableKeys(7, S, token, ()),
    ]


def guarded() -> TokenVerifier:
    return TokenVerifier("pass", VirtualClock(), SIGNER)


def refused(message: Message) -> int:
    assert isinstance(message, AuthTokenCheckFailed)
    assert message.request_id == 7
    return message.error_code


async def untouched(made: World) -> None:
    info = made.store.info(S)
    assert info is not None
    assert (info.start, info.length, info.sealed) == (0, 2, False)
    assert made.store.segments() == [S]


async def filled(made: World) -> None:
    await made.store.create(S)
    await made.store.append(S, b"ab", writer=W, expected=None, number=1, events=1)


def test_the_requests_below_are_all_that_carry_a_token() -> None:
    known = {type(message) for message in (*looking(""), *changing(""))}
    for module in (appends, segments, tables, own):
        for _, found in inspect.getmembers(module, inspect.isclass):
            if issubclass(found, Message) and "token" in getattr(found, "__dataclass_fields__", {}):
                assert found in known


@pytest.mark.parametrize("token", ["", "nonsense", "a.b.c", "pas", "pass "])
def test_nothing_is_answered_or_changed_without_a_valid_token(token: str) -> None:
    @virtually
    async def run() -> None:
        async with world(verifier=guarded()) as made:
            await filled(made)
            peer = await made.peer()
            for message in (*looking(token), *changing(token)):
                assert refused(await peer.ask(message)) == TOKEN_CHECK_FAILED, message
            await untouched(made)

    run()


@virtually
async def test_forged_tokens_and_those_for_another_stream_are_refused() -> None:
    async with world(verifier=guarded()) as made:
        await filled(made)
        peer = await made.peer()
        for token in (
            TokenSigner(b"f" * 64, VirtualClock(), 600_000).sign_token("logs", {"app": U}),
            SIGNER.sign_token("logs", {"other": U}),
            SIGNER.sign_token("log", {"app": U}),
        ):
            for message in (*looking(token), *changing(token)):
                assert refused(await peer.ask(message)) == TOKEN_CHECK_FAILED, message
        await untouched(made)


@virtually
async def test_no_token_is_for_a_segment_without_a_stream() -> None:
    async with world(verifier=guarded()) as made:
        peer = await made.peer()
        token = SIGNER.sign_token("logs", {"app": U})
        for name in ("", "/", "logs", "logs/app", "//", "app/0"):
            assert (
                refused(await peer.ask(CreateSegment(7, name, 0, 0, token))) == TOKEN_CHECK_FAILED
            )
            assert refused(await peer.ask(MergeSegments(7, S, name, token))) == TOKEN_CHECK_FAILED
        assert made.store.segments() == []


@virtually
async def test_a_token_to_read_allows_no_change_and_one_to_update_allows_both() -> None:
    async with world(verifier=guarded()) as made:
        await filled(made)
        peer = await made.peer()
        reading = SIGNER.sign_token("logs", {"app": R})
        for message in changing(reading):
            assert refused(await peer.ask(message)) == TOKEN_CHECK_FAILED, message
        await untouched(made)
        for token in (reading, SIGNER.sign_token("logs", {"app": U})):
            read = await peer.ask(ReadSegment(S, 0, 10, token, 7))
            assert isinstance(read, SegmentRead)
            assert bytes(read.whole) == b"ab"
            assert isinstance(await peer.ask(GetStreamSegmentInfo(7, S, token)), StreamSegmentInfo)
        updating = SIGNER.sign_token("logs", {"app": U})
        assert isinstance(await peer.ask(SetupAppend(7, W, S, updating)), AppendSetup)
        assert isinstance(await peer.ask(AppendBlockEnd(W, 2, b"cd", 1, 2, 8)), DataAppended)


@virtually
async def test_a_merge_needs_a_token_for_source_and_target() -> None:
    async with world(verifier=guarded()) as made:
        await filled(made)
        await made.store.create(OTHER)
        peer = await made.peer()
        for token in (
            SIGNER.sign_token("logs", {"app": U}),
            SIGNER.sign_token("logs", {"other": U}),
        ):
            assert refused(await peer.ask(MergeSegments(7, S, OTHER, token))) == TOKEN_CHECK_FAILED
            assert (
                refused(await peer.ask(MergeSegmentsBatch(7, S, (OTHER,), token)))
                == TOKEN_CHECK_FAILED
            )
        assert made.store.info(OTHER) is not None


@virtually
async def test_an_expired_token_has_a_code_of_its_own_and_closes_a_set_up() -> None:
    async with world(verifier=guarded()) as made:
        await filled(made)
        old = TokenSigner(b"s" * 64, VirtualClock(), 1_000).sign_token("logs", {"app": U})
        await asyncio.sleep(3)
        peer = await made.peer()
        for message in (*looking(old), *changing(old)[1:]):
            assert refused(await peer.ask(message)) == TOKEN_EXPIRED, message
        assert refused(await peer.ask(SetupAppend(7, W, S, old))) == TOKEN_EXPIRED
        with pytest.raises(EOFError):
            await peer.hear()
        await untouched(made)


@virtually
async def test_a_connection_with_writers_ends_with_its_token_after_the_acknowledgements() -> None:
    async with world(verifier=guarded(), sync_seconds=0.5) as made:
        await filled(made)
        peer, reader = await made.peer(), await made.peer()
        token = TokenSigner(b"s" * 64, VirtualClock(), 10_000).sign_token("logs", {"app": U})
        assert isinstance(await peer.ask(SetupAppend(7, W, S, token)), AppendSetup)
        await asyncio.sleep(9)
        assert isinstance(await peer.ask(AppendBlockEnd(W, 2, b"cd", 1, 2, 8)), DataAppended)
        heard = await peer.rest()
        assert not any(isinstance(message, AuthTokenCheckFailed) for message in heard)
        # whose connection nobody appends on
        assert isinstance(await reader.ask(KeepAlive()), KeepAlive)
        again = await made.peer()
        assert isinstance(
            answer := await again.ask(SetupAppend(7, W, S, SIGNER.sign_token("logs", {"app": U}))),
            AppendSetup,
        )
        assert answer.last_event_number == 2
        await asyncio.sleep(300)
        assert isinstance(await again.ask(AppendBlockEnd(W, 2, b"ef", 1, 3, 8)), DataAppended)


@virtually
async def test_hello_needs_no_token_and_the_local_token_allows_everything() -> None:
    async with world(verifier=guarded()) as made:
        peer = await made.peer()
        assert isinstance(await peer.ask(Hello()), Hello)
        found = endpoint.read_endpoint(made.disk, "/var/store")
        assert found is not None
        assert found.token == "pass"
        assert isinstance(await peer.ask(CreateSegment(7, S, 0, 0, found.token)), SegmentCreated)


@virtually
async def test_without_a_verifier_tokens_are_ignored() -> None:
    async with world() as made:
        peer: Peer = await made.peer()
        assert isinstance(await peer.ask(CreateSegment(7, S, 0, 0, "nonsense")), SegmentCreated)
        found = endpoint.read_endpoint(made.disk, "/var/store")
        assert found is not None
        assert found.token == ""
