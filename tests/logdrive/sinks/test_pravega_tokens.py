"""Delegation tokens are asked for once, and again before they end or when they were refused."""

import asyncio
import base64

from logdrive.sinks.pravega_tokens import Tokens
from tests.receiver.world import in_virtual_time
from tests.support.virtual_time import EPOCH_MS, VirtualClock


def token(lasts: int) -> str:
    """Return an unsigned token that ends *lasts* seconds after the clock's beginning."""
    claims = base64.urlsafe_b64encode(b'{"sub":"x","exp":%d}' % (EPOCH_MS // 1000 + lasts)).rstrip(b"=").decode()
    return f"head.{claims}.signature"


class Signer:
    """The one call that tokens come from."""

    def __init__(self, *tokens: str) -> None:
        self.left = list(tokens)

    async def token(self, scope: str, stream: str, *, update: bool = True) -> str:
        assert (scope, stream) == ("logs", "app")
        return self.left.pop(0)


@in_virtual_time
async def test_a_token_is_renewed_a_minute_before_it_ends() -> None:
    first, second = token(600), token(1200)
    signer = Signer(first, second)
    tokens = Tokens(signer, VirtualClock())  # type: ignore[arg-type] # the one method that is called
    assert tokens.of("logs/app/0.#epoch.0") == ""
    await tokens.fresh("logs", "app")
    await asyncio.sleep(500)
    await tokens.fresh("logs", "app")
    assert tokens.of("logs/app/0.#epoch.0") == first
    await asyncio.sleep(60)
    await tokens.fresh("logs", "app")
    assert tokens.of("logs/app/3.#epoch.1") == second
    assert tokens.of("logs/other/0.#epoch.0") == ""


@in_virtual_time
async def test_one_without_an_end_is_kept_until_it_is_refused() -> None:
    signer = Signer("", "odd")
    tokens = Tokens(signer, VirtualClock())  # type: ignore[arg-type] # the one method that is called
    for _ in range(3):
        await tokens.fresh("logs", "app")
        await asyncio.sleep(86_400)
    tokens.refused("logs/app/0.#epoch.0")
    await tokens.fresh("logs", "app")
    assert tokens.of("logs/app/0.#epoch.0") == "odd"
