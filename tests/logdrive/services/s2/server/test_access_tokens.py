"""Access tokens: what can be issued, who holds one, and what they may do."""

import base64

import pytest

from logdrive.services.auth.passwords import hash_password
from logdrive.services.auth.users import UserConfig, Users, UsersConfig
from logdrive.services.s2.server.access_tokens import AccessTokens
from logdrive.services.s2.server.operations import ALL, is_within, permitted_operations
from logdrive.services.s2.server.principals import LoggedInUser, Principals, TokenHolder
from logdrive.services.s2.server.state import (
    NameSet,
    OperationGroups,
    ReadWrite,
    S2Token,
    TokenScope,
)
from logdrive.wire.s2.errors import S2Error
from tests.logdrive.services.s2.server.harness import BASIN, Control, control, in_control, refused
from tests.support.inline import InlineExecutor
from tests.support.memory.disk import MemoryDisk
from tests.support.virtual_time import run

EVERYTHING = NameSet(prefix="")
READER = TokenScope(
    basins=NameSet(prefix="first-"),
    streams=NameSet(prefix="logs/"),
    op_groups=OperationGroups(stream=ReadWrite(read=True)),
    ops=("list-streams",),
)
ALL_OF_ALL = TokenScope(
    basins=EVERYTHING, streams=EVERYTHING, access_tokens=EVERYTHING, ops=tuple(sorted(ALL))
)


async def issue(
    tokens: AccessTokens,
    id_: str,
    scope: TokenScope,
    *,
    auto: bool = False,
    expires_ms: int | None = None,
    issuer: S2Token | None = None,
) -> str:
    return await tokens.issue(
        id_, scope, auto_prefix_streams=auto, expires_ms=expires_ms, issuer=issuer
    )


@in_control
async def test_a_token_allows_what_its_scope_says_and_nothing_else(made: Control) -> None:
    text = await issue(made.tokens, "reader", READER)
    holder = await Principals(made.tokens, None).identify(f"Bearer {text}")
    assert isinstance(holder, TokenHolder)

    holder.check("read", basin=BASIN, stream="logs/a")
    holder.check("list-streams", basin=BASIN)
    with refused("permission_denied"):
        holder.check("append", basin=BASIN, stream="logs/a")
    with refused("permission_denied"):
        holder.check("read", basin=BASIN, stream="other")
    with refused("permission_denied"):
        holder.check("read", basin="second-basin", stream="logs/a")
    with refused("permission_denied"):
        holder.check("issue-access-token", token_id="more")
    assert holder.prefix == ""
    assert not holder.sees_stream(BASIN, "other")


@in_control
async def test_a_prefix_is_put_before_names_only_where_the_token_asks_for_it(
    made: Control,
) -> None:
    text = await issue(made.tokens, "reader", READER, auto=True)
    holder = await Principals(made.tokens, None).identify(f"Bearer {text}")
    assert holder.prefix == "logs/"


@in_control
async def test_a_token_is_known_until_it_is_revoked_or_expires(made: Control) -> None:
    text = await issue(made.tokens, "a", READER, expires_ms=made.clock.now_ms() + 1000)
    assert made.tokens.recognize(text) is not None
    assert [id_ for id_, _ in made.tokens.page("", "", 10, lambda _: True)[0]] == ["a"]
    with refused("resource_already_exists"):
        await issue(made.tokens, "a", READER)

    await made.clock.sleep(1)

    assert made.tokens.recognize(text) is None
    assert made.tokens.page("", "", 10, lambda _: True) == ([], False)
    with refused("authn"):  # not anyone, though no login is needed
        await Principals(made.tokens, None).identify(f"Bearer {text}")

    other = await issue(made.tokens, "a", READER)
    await made.tokens.revoke("a")
    assert made.tokens.recognize(other) is None
    with refused("access_token_not_found"):
        await made.tokens.revoke("a")


def test_a_token_that_was_revoked_or_replaced_is_refused_for_good_where_any_text_will_do() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with control(disk, clean=False) as made:
            replaced = await issue(made.tokens, "a", READER, expires_ms=made.clock.now_ms() + 1000)
            await made.clock.sleep(1)
            revoked = await issue(made.tokens, "a", READER)
            await made.tokens.revoke("a")
        async with control(disk.killed()) as made:
            principals = Principals(made.tokens, None)
            for text in (replaced, revoked):
                with refused("authn"):
                    await principals.identify(f"Bearer {text}")
            await principals.identify("Bearer any")

    run(main())


def test_tokens_outlive_a_kill_and_are_stored_only_as_digests() -> None:
    async def main() -> None:
        disk = MemoryDisk()
        async with control(disk, clean=False) as made:
            text = await issue(made.tokens, "a", READER)
        killed = disk.killed()
        async with control(killed) as made:
            token = made.tokens.recognize(text)
            assert token is not None
            assert token.scope == READER
            assert text not in str(made.registry.state.tokens)

    run(main())


@in_control
async def test_a_token_that_could_do_nothing_or_is_malformed_is_refused(made: Control) -> None:
    for scope in (
        TokenScope(),
        TokenScope(ops=("fly",)),
        TokenScope(ops=("read",), streams=NameSet()),
        TokenScope(ops=("read",), streams=NameSet(exact="a", prefix="a")),
    ):
        with refused("invalid"):
            await issue(made.tokens, "a", scope)
    with refused("invalid"):
        await issue(made.tokens, "a", TokenScope(ops=("read",)), auto=True)
    with refused("invalid"):
        await issue(made.tokens, "", READER)
    with refused("invalid"):
        await issue(made.tokens, "a", READER, expires_ms=made.clock.now_ms())


@in_control
async def test_a_holder_can_not_issue_more_than_they_have(made: Control) -> None:
    scope = TokenScope(
        basins=NameSet(prefix="first-"),
        streams=NameSet(exact="one"),
        access_tokens=NameSet(prefix="mine-"),
        ops=("read", "issue-access-token"),
    )
    expires = made.clock.now_ms() + 60_000
    mine = made.tokens.recognize(await issue(made.tokens, "me", scope, expires_ms=expires))
    assert mine is not None

    narrower = TokenScope(basins=NameSet(exact=BASIN), streams=NameSet(exact="one"), ops=("read",))
    text = await issue(made.tokens, "mine-1", narrower, issuer=mine)
    issued = made.tokens.recognize(text)
    assert issued is not None
    assert issued.expires_ms == expires
    for wider in (
        TokenScope(basins=NameSet(exact=BASIN), ops=("append",)),
        TokenScope(basins=EVERYTHING, ops=("read",)),
        TokenScope(streams=NameSet(prefix="one"), ops=("read",)),
    ):
        with refused("permission_denied"):
            await issue(made.tokens, "mine-2", wider, issuer=mine)


def test_a_group_has_the_operations_of_its_level() -> None:
    everything = ReadWrite(read=True, write=True)
    groups = OperationGroups(account=everything, basin=everything, stream=everything)
    assert permitted_operations(TokenScope(op_groups=groups)) == ALL
    reading = TokenScope(op_groups=OperationGroups(stream=ReadWrite(read=True)))
    assert permitted_operations(reading) == {"read", "check-tail", "stream-metrics"}


@pytest.mark.parametrize(
    ("inner", "outer", "fits"),
    [
        (None, None, True),
        (NameSet(exact="a"), None, False),
        (NameSet(exact=""), None, True),
        (NameSet(exact="a"), NameSet(exact="a"), True),
        (NameSet(prefix="a"), NameSet(exact="a"), False),
        (NameSet(prefix="ab"), NameSet(prefix="a"), True),
        (NameSet(prefix="a"), NameSet(prefix="ab"), False),
    ],
)
def test_names_are_within_others(inner: NameSet | None, outer: NameSet | None, fits: bool) -> None:
    assert is_within(inner, outer) is fits


@in_control
async def test_with_a_users_file_only_its_users_and_tokens_get_in(made: Control) -> None:
    hashed = str(hash_password("secret", b"0123456789abcdef"))
    may = {"first-basin/logs*": "READ_UPDATE", "first-basin/*": "READ"}
    config = UsersConfig(user=(UserConfig(name="ann", password=hashed, may=may),))
    principals = Principals(made.tokens, Users(config, InlineExecutor(), made.catalog.random))
    for header in (None, "Bearer x", "Bearer ann:wrong", "Digest ann:secret", "Bearer é"):
        with pytest.raises(S2Error) as caught:
            await principals.identify(header)
        assert caught.value.code == "authn", header

    encoded = base64.b64encode(b"ann:secret").decode()
    for text in ("Bearer ann:secret", f"Bearer {encoded}", f"Basic {encoded}"):
        user = await principals.identify(text)
        assert isinstance(user, LoggedInUser)
    user.check("append", basin=BASIN, stream="logs-1")
    user.check("read", basin=BASIN, stream="other")
    user.check("list-basins")
    with refused("permission_denied"):
        user.check("append", basin=BASIN, stream="other")
    with refused("permission_denied"):
        user.check("delete-basin", basin=BASIN)
    with refused("permission_denied"):
        user.check("issue-access-token", token_id="mine")
    assert user.sees_basin(BASIN)
    assert not user.sees_basin("second-basin")

    text = await issue(made.tokens, "all", ALL_OF_ALL)
    (await principals.identify(f"Bearer {text}")).check("create-basin", basin="second-basin")
