"""The `logdrive` command: every program and tool below one name."""

import importlib
import os
import sys

import click

from logdrive.cli.output import complain
from logdrive.errors import ConfigError, LogdriveError, UnavailableError, file_error_text
from logdrive.kernel.loops import COMPILED

FAILED, USAGE = 1, 2
_MODULES = {"demo": "logdrive.cli.demo.command"}
_COMMANDS = ("agent", "certs", "demo", "pipeline", "receiver", "store")


class Commands(click.Group):
    """Imports a command when it is asked for: an agent neither waits for the receiver's modules nor
    keeps them in memory.
    """

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return their names, each that of a module beside this one and of the command in it."""
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, imported; None where there is none of that name."""
        if cmd_name not in _COMMANDS:
            return None
        found: click.Command = getattr(
            importlib.import_module(_MODULES.get(cmd_name, f"logdrive.cli.{cmd_name}")), cmd_name
        )
        return found


@click.group(
    cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(
    package_name="logdrive",
    message=f"%(prog)s, version %(version)s, {'compiled' if COMPILED else 'Python'} loops",
)
def cli() -> None:
    """Ship log lines from files to tables, and prove that none was lost or doubled.

    \b
    Try it out:             logdrive demo
    A CA and certificates:  logdrive certs /etc/logdrive/tls --name logs.example.com
    Receive and store:      logdrive receiver run --config receiver.toml
    Ship what files hold:   logdrive agent ship /var/log/*.log --to logs.example.com:5044 \\
                              --ca ca.pem --cert client.pem --key client.key
    Follow files:           logdrive agent run --config agent.toml
    Into tables:            logdrive pipeline run --to /data/logs --once \\
                              --from file:///var/lib/logdrive/store#logs/events
    Complete?               logdrive pipeline audit /data/logs
    """


def main() -> None:
    """Run the command line; end with 0 done, 1 failed, 2 usage or configuration: the same again
    would end the same.
    """
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Abort:
        complain("interrupted")
        code = 130
    except click.ClickException as error:
        error.show()
        code = USAGE
    except ConfigError as error:
        complain(str(error))
        code = FAILED if isinstance(error, UnavailableError) else USAGE
    except LogdriveError as error:
        complain(str(error))
        code = FAILED
    except BrokenPipeError:  # the reader of what is printed has enough, as with `| head`
        # what is buffered has nowhere to go
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    except OSError as error:  # a full disk, a missing permission: a traceback says no more
        complain(file_error_text(error))
        code = FAILED
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
