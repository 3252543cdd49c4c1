"""Cancellation that arrives together with another failure."""

import asyncio


def raise_if_cancelled() -> None:
    """Raise `CancelledError` if the current task is being cancelled.

    A task group that fails at the same moment raises only the failure (CPython 3.11), so code that
    continues after a failure calls this first. Call it after an `except*` block, not inside it:
    before 3.11.4 an exception raised inside comes out in a group, and the task counts as failed. It
    works only if the group's body was running when the group failed, or failed itself. A group that
    only waits for its tasks leaves the task marked as cancelling by itself.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
