"""Imports that need an extra of the package: what to say where its libraries are not installed.

A service's client, sink, reader and face import such libraries when they are first used, within
`libraries_of`; so everything else works without them.
"""

import contextlib
from collections.abc import Iterator

from logdrive.errors import ConfigError, Mistake


def missing_library(service: str, error: ImportError) -> str:
    """Return what to do about *error*: a library that *service*, such as S2, needs is missing.

    The extra of the package has the service's name. An import of this package's own that fails is a
    bug, and is raised again.
    """
    if (error.name or "").partition(".")[0] in ("", "agent", "logdrive", "receiver"):
        raise error
    return (
        f"{service} needs {error.name}, which is not installed: "
        f"pip install 'logdrive[{service.lower()}]'"
    )


@contextlib.contextmanager
def libraries_of(service: str, file: str, key: str, value: str) -> Iterator[None]:
    """Raise `ConfigError` for a library that is missing, where *service* is imported inside.

    *key* of *file* is what asked for the service, and *value* its value, which is shown, or "".
    """
    try:
        yield
    except ImportError as error:
        raise ConfigError(file, [Mistake(key, value, missing_library(service, error))]) from error
