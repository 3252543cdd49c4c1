"""A task that is cancelled while something else fails ends as cancelled."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import logdrive
from logdrive.errors import TransientError
from logdrive.host.cancel import raise_if_cancelled
from tests.support.virtual_time import run

_ROOT = Path(logdrive.__file__).parents[1]
_SOURCES = [
    path
    for folder in ("logdrive", "agent", "receiver")
    for path in sorted((_ROOT / folder).rglob("*.py"))
]


async def _fails() -> None:
    raise TransientError("the other side is gone")


async def _goes_on_after_failures() -> None:
    while True:
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(_fails())
                await asyncio.sleep(1.0)
        except* TransientError:
            pass
        raise_if_cancelled()


def test_a_task_that_goes_on_after_failures_ends_when_it_is_cancelled_at_any_time() -> None:
    async def main() -> None:
        for turns in range(12):
            going = asyncio.create_task(_goes_on_after_failures())
            for _ in range(turns):
                await asyncio.sleep(0)
            going.cancel()
            async with asyncio.timeout(1.0):
                await asyncio.wait([going])
            assert going.cancelled()

    run(main())


def _raising_in_groups(source: str) -> Iterator[int]:
    """Yield the lines inside `except*` blocks that raise a new exception, or check for
    cancellation.
    """
    within: int | None = None
    for number, line in enumerate(source.splitlines(), 1):
        text = line.lstrip()
        indent = len(line) - len(text)
        if within is not None and text and indent <= within:
            within = None
        if text.startswith("except*"):
            within = indent
        elif within is not None and text.startswith(("raise ", f"{raise_if_cancelled.__name__}(")):
            yield number


def test_no_except_star_block_raises_a_new_exception() -> None:
    """CPython before 3.11.4 wraps it in a group, so that a cancelled task would silently end as
    failed.
    """
    found = [
        f"{path.relative_to(_ROOT)}:{line}"
        for path in _SOURCES
        for line in _raising_in_groups(path.read_text())
    ]
    assert not found
