"""Says what to install where packages that the pipeline needs are missing."""

import importlib.util
from collections.abc import Sequence

from logdrive.errors import LogdriveError

_OF_TABLES = ("deltalake", "jinja2", "numpy", "pyarrow")


class PackagesMissingError(LogdriveError):
    """The pipeline's packages are not installed."""


def require_tables() -> None:
    """Raise `PackagesMissingError` if tables can't be read for want of packages."""
    require_packages(_OF_TABLES)


def require_packages(names: Sequence[str], extra: str = "spark") -> None:
    """Raise `PackagesMissingError` if any package of *names*, of *extra*, is not installed."""
    missing = [name for name in names if importlib.util.find_spec(name) is None]
    if missing:
        raise PackagesMissingError(
            f"the pipeline needs {', '.join(missing)}: pip install 'logdrive[{extra}]'"
        )
