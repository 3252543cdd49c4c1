"""Root cause of an ExceptionGroup: which failure of concurrent tasks to report."""

from logdrive.errors import LogdriveError


def first_cause(failures: ExceptionGroup[Exception]) -> Exception:
    """Return the first `LogdriveError` in the group.

    Return the group itself if anything else, a bug, is in it.
    """
    leaves: list[Exception] = []
    stack: list[Exception] = [failures]
    while stack:
        failure = stack.pop()
        if isinstance(failure, ExceptionGroup):
            stack += failure.exceptions
        else:
            leaves.append(failure)

    # the stack returns the last of a group first
    return leaves[-1] if all(isinstance(leaf, LogdriveError) for leaf in leaves) else failures
