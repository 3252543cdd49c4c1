"""Being cancelled while something else fails."""

import asyncio


def raise_if_cancelled() -> None:
    """Raise `CancelledError` where the current task is being cancelled.

    A task group that fails in the same moment tells only of the failure (CPython 3.11), so whoever
    goes on after a failure asks first: behind an `except*`, not within it, where what is raised
    comes out in a group (before 3.11.4), so that the task counts as failed. It holds only where the
    group's body was running when the group failed, or failed itself: one that has merely to wait
    for its tasks is left cancelling by the group's own doing.
    """
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        raise asyncio.CancelledError
