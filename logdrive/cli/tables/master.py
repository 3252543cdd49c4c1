"""The option `--master`: its form, and whether pyspark is installed, are checked at once; whether a
master answers is at the start.
"""

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click
import structlog

from logdrive.errors import Mistake, UnavailableError

Command = TypeVar("Command", bound=Callable[..., Any])

MASTER: Final = "--master"
_REMEDY: Final = "start it, or name another"


def master_option(help_text: str) -> Callable[[Command], Command]:
    """Return what adds `--master` to a command, with *help_text* behind "Spark cluster, such as
    spark://host:7077". An empty one is as none.
    """
    return click.option(
        MASTER,
        metavar="URL",
        callback=lambda _, __, value: _checked(value) if value else None,
        help=f"Spark cluster, such as spark://host:7077{help_text}",
    )


def _checked(url: str) -> str:
    from logdrive.pipeline.spark.master import check_master
    from logdrive.pipeline.spark.session import require_spark

    try:
        check_master(url)
    except ValueError as error:
        raise click.BadParameter(f"{url!r}: {error}") from error
    require_spark(MASTER)
    return url


def require_master(url: str | None) -> None:
    """Raise `UnavailableError` if the master at *url* does not answer: a command needs it now."""
    if url and (reason := _why_unreachable(url)):
        remedy = f"no master of Spark answers there ({reason}): {_REMEDY}"
        raise UnavailableError("pipeline", [Mistake(MASTER, url, remedy)])


def warn_of_master(key: str, url: str | None) -> None:
    """Warn if the master at *url*, which *key* names, does not answer.

    A run needs it only where much waits, and it may be there until then.
    """
    if url and (reason := _why_unreachable(url)):
        structlog.get_logger("pipeline").warning(
            f"no master of Spark answers; what is too much for this process will fail: {_REMEDY}",
            key=key,
            master=url,
            reason=reason,
        )


def _why_unreachable(url: str) -> str | None:
    from logdrive.pipeline.spark.master import why_unreachable

    return why_unreachable(url)
