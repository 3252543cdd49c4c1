"""A delegation token is requested once, and again before it expires or after it was refused."""

import asyncio
import base64

from logdrive.errors import LogdriveError, TransientError
from logdrive.services.pravega.client.errors import RequestRefusedError
from logdrive.services.pravega.client.tokens import StreamTokens
from tests.receiver.world import in_virtual_time
from tests.support.virtual_time import EPOCH_MS, VirtualClock


def token(lasts: int) -> str:
    """Return an unsigned token that ends *lasts* seconds after the clock's beginning."""
    claims = (
        base64.urlsafe_b64encode(b'{"sub":"x","exp":%d}' % (EPOCH_MS // 1000 + lasts))
        .rstrip(b"=")
        .decode()
    )
    return f"head.{claims}.signature"


class Signer:
    """The one call that tokens come from, and failures."""

    def __init__(self, *answers: str | LogdriveError) -> None:
        self.left = list(answers)

    async def delegation_token(self, scope: str, stream: str, *, update: bool = True) -> str:
        assert (scope, stream) == ("logs", "app")
        answer = self.left.pop(0)
        if isinstance(answer, LogdriveError):
            raise answer
        return answer


@in_virtual_time
async def test_a_token_is_renewed_a_minute_before_it_ends() -> None:
    first, second = token(600), token(1200)
    signer = Signer(first, second)
    tokens = StreamTokens(signer, VirtualClock())  # type: ignore[arg-type] # the one method that is called
    assert tokens.token_of("logs/app/0.#epoch.0") == ""
    await tokens.ensure_fresh("logs", "app")
    await asyncio.sleep(500)
    await tokens.ensure_fresh("logs", "app")
    assert tokens.token_of("logs/app/0.#epoch.0") == first
    await asyncio.sleep(60)
    await tokens.ensure_fresh("logs", "app")
    assert tokens.token_of("logs/app/3.#epoch.1") == second
    assert tokens.token_of("logs/other/0.#epoch.0") == ""


@in_virtual_time
async def test_one_without_an_end_is_kept_until_it_is_refused() -> None:
    signer = Signer("", "odd")
    tokens = StreamTokens(signer, VirtualClock())  # type: ignore[arg-type] # the one method that is called
    for _ in range(3):
        await tokens.ensure_fresh("logs", "app")
        await asyncio.sleep(86_400)
    tokens.forget_token("logs/app/0.#epoch.0")
    await tokens.ensure_fresh("logs", "app")
    assert tokens.token_of("logs/app/0.#epoch.0") == "odd"


@in_virtual_time
async def test_tokens_are_renewed_before_they_end_when_refused_and_after_a_failed_try() -> None:
    signer = Signer(
        token(600), TransientError("away"), RequestRefusedError("not now"), token(1200), token(1800)
    )
    tokens = StreamTokens(signer, VirtualClock())  # type: ignore[arg-type] # the one method that is called
    running = asyncio.create_task(tokens.run())
    await tokens.ensure_fresh("logs", "app")
    await asyncio.sleep(538)
    assert (tokens.token_of("logs/app/0.#epoch.0"), len(signer.left)) == (token(600), 4)
    await asyncio.sleep(10)
    assert (tokens.token_of("logs/app/0.#epoch.0"), len(signer.left)) == (token(1200), 1)
    tokens.forget_token("logs/app/0.#epoch.0")
    assert tokens.token_of("logs/app/0.#epoch.0") == ""
    await asyncio.sleep(3)
    assert tokens.token_of("logs/app/0.#epoch.0") == token(1800)
    tokens.forget_token("logs/other/0.#epoch.0")  # which nobody ever asked for
    await asyncio.sleep(3)
    assert signer.left == []
    running.cancel()
    await asyncio.wait([running])
