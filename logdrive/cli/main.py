"""The `logdrive` command: every program and tool below one name."""

import os
import sys

import click

from logdrive.cli.lazy import Commands, import_structlog
from logdrive.cli.output import complain
from logdrive.errors import ConfigError, LogdriveError, UnavailableError, file_error_text
from logdrive.kernel.loops import COMPILED

FAILED, USAGE = 1, 2
_COMMANDS = {
    "agent": "logdrive.cli.agent",
    "certs": "logdrive.cli.certs",
    "demo": "logdrive.cli.demo.command",
    "pipeline": "logdrive.cli.pipeline",
    "receiver": "logdrive.cli.receiver",
    "store": "logdrive.cli.store",
}


@click.group(
    cls=Commands,
    lazily=_COMMANDS,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
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
    import_structlog()
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
