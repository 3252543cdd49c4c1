"""Version of the agent, for those who ask it."""

from functools import cache


@cache
def agent_version() -> str:
    """Return the version of this installation."""
    # not sooner: the import takes 1.3 MiB, and few ask
    from importlib.metadata import version

    return version("logdrive")
