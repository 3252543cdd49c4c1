"""The `logdrive` command and its subcommands, each imported only when it runs."""

import os
import signal
import sys
from importlib.util import find_spec

import click

from logdrive.cli.lazy import LazyCommands, import_structlog
from logdrive.cli.output import print_error
from logdrive.errors import ConfigError, LogdriveError, UnavailableError, file_error_text
from logdrive.host.first_process import hold_always, hold_signals
from logdrive.kernel.loops import COMPILED

FAILED, USAGE = 1, 2
_COMMANDS = {
    "agent": "logdrive.cli.agent.command",
    "certs": "logdrive.cli.certs",
    "demo": "logdrive.cli.demo.command",
    "pipeline": "logdrive.cli.pipeline",
    "receiver": "logdrive.cli.receiver",
    "store": "logdrive.cli.store",
}
_UNUSED = ("bz2", "lzma", *(["_hashlib"] if find_spec("_sha1") else []))
"""What libraries import if it is there, and agents and receivers do not use.

`_hashlib` would load a second OpenSSL, which takes 3 MiB. Python's own functions do the same, where
it was built with them. A receiver imports it with the first login.
"""
_WITHOUT = {"agent": _UNUSED, "receiver": _UNUSED}


@click.group(
    cls=LazyCommands,
    lazily=_COMMANDS,
    without=_WITHOUT,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
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
    hold_signals([signal.SIGTERM, signal.SIGINT])
    if sys.argv[1:3] == ["agent", "run"]:
        # it asks for a reload, and would end an agent that only begins
        hold_always([signal.SIGHUP])
    import_structlog()
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
        print_error(file_error_text(error))
        code = FAILED
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
