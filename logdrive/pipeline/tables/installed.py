"""Says what to install where packages that the pipeline needs are missing."""

import importlib.util
from collections.abc import Sequence

from logdrive.errors import LogdriveError

TABLES_PACKAGES = ("deltalake", "jinja2", "numpy", "prometheus_client", "pyarrow")
"""What the extra `tables` brings: all that the pipeline needs on one machine."""


class PackagesMissingError(LogdriveError):
    """The pipeline's packages are not installed."""


def require_tables() -> None:
    """Raise `PackagesMissingError` if the `tables` extra is not installed."""
    require_packages(TABLES_PACKAGES, "tables")


def require_packages(names: Sequence[str], extra: str, user: str = "the pipeline") -> None:
    """Raise `PackagesMissingError` if any package of *names*, of *extra*, is not installed.

    *user* is what needs them, such as an option.
    """
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise PackagesMissingError(
            f"{user} needs {', '.join(missing)}: pip install 'logdrive[{extra}]'"
        )
