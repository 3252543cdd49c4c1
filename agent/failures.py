"""Which of the failures of concurrent tasks to tell."""

from logdrive.errors import LogdriveError


def first_cause(failures: ExceptionGroup[Exception]) -> Exception:
    """Return the failure of ours in the group, the first one; the group itself where anything else,
    a bug, is in it.
    """
    leaves: list[Exception] = []
    stack: list[Exception] = [failures]
    while stack:
        failure = stack.pop()
        if isinstance(failure, ExceptionGroup):
            stack += failure.exceptions
        else:
            leaves.append(failure)
    return leaves[-1] if all(isinstance(leaf, LogdriveError) for leaf in leaves) else failures
