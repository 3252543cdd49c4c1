"""The `logdrive` command and its subcommands, each imported only when it runs."""

import importlib
import os
import sys

import click

from logdrive.cli.output import print_error
from logdrive.errors import ConfigError, LogdriveError, UnavailableError
from logdrive.host.disk import words_of
from logdrive.kernel.loops import COMPILED

FAILED, USAGE = 1, 2
_MODULES = {"demo": "logdrive.cli.demo.command"}
_COMMANDS = ("agent", "certs", "demo", "pipeline", "receiver", "store")


class Commands(click.Group):
    """Imports a subcommand on first use.

    An agent then neither waits for the receiver's modules nor keeps them in memory.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of the subcommands.

        `logdrive.cli.NAME` (or the module in `_MODULES`) defines a click command called NAME.
        """
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import and return the command *cmd_name*, or None if there is no such command."""
        if cmd_name not in _COMMANDS:
            return None
        module = importlib.import_module(_MODULES.get(cmd_name, f"logdrive.cli.{cmd_name}"))
        command: click.Command = getattr(module, cmd_name)
        return command


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(
    package_name="logdrive",
    message=f"%(prog)s, version %(version)s, {'compiled' if COMPILED else 'Python'} loops",
)
def cli() -> None:
    """Ship log lines from files to tables, and prove that none was lost or duplicated.

    \b
    Try it out:            logdrive demo
    Make certificates:     logdrive certs /etc/logdrive/tls --name logs.example.com
    Receive and store:     logdrive receiver run --config receiver.toml
    Ship files once:       logdrive agent ship /var/log/*.log --to logs.example.com:5044 \\
                             --ca ca.pem --cert client.pem --key client.key
    Follow files:          logdrive agent run --config agent.toml
    Fill tables:           logdrive pipeline run --to /data/logs --once \\
                             --from file:///var/lib/logdrive/store#logs/events
    Check completeness:    logdrive pipeline audit /data/logs
    """


def main() -> None:
    """Run the command line and exit.

    Exit codes: 0 success; 1 failure that a retry may cure; 2 wrong usage or configuration, which
    a retry does not cure; 130 interrupted.
    """
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        print_error("interrupted")
        code = 130
    except click.ClickException as error:
        error.show()
        code = USAGE
    except ConfigError as error:
        print_error(str(error))
        code = FAILED if isinstance(error, UnavailableError) else USAGE
    except LogdriveError as error:
        print_error(str(error))
        code = FAILED
    except BrokenPipeError:  # the reader of our output closed it, as `| head` does
        # discard buffered output, else the interpreter fails once more when it flushes at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    except OSError as error:  # full disk, missing permission: a traceback would add nothing
        print_error(words_of(error))
        code = FAILED
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
