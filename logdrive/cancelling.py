"""Being cancelled while something else fails."""

import asyncio


def heed_cancelling() -> None:
    """Raise `CancelledError` where the current task is being cancelled.

    A task group that fails in the same moment tells only of the failure (CPython 3.11), so whoever goes on after a failure asks first.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
