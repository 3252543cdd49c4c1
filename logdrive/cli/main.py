"""The `logdrive` command: every program and tool below one name."""

import sys

import click

from logdrive.cli.agent import agent
from logdrive.cli.certs import certs
from logdrive.cli.demo import demo
from logdrive.cli.output import complain
from logdrive.cli.pipeline import pipeline
from logdrive.cli.receiver import receiver
from logdrive.cli.store import store
from logdrive.errors import ConfigError, LogdriveError

FAILED, USAGE = 1, 2


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="logdrive")
def cli() -> None:
    """Ship log lines from files to tables, and prove that none was lost or doubled.

    \b
    Try it out:                  logdrive demo
    A CA and certificates:       logdrive certs /etc/logdrive/tls --name logs.example.com
    Receive and store:           logdrive receiver run --config receiver.toml
    Ship what files hold:        logdrive agent ship /var/log/*.log --to localhost:5044 --ca ca.pem --cert client.pem --key client.key
    Follow files:                logdrive agent run --config agent.toml
    Into tables:                 logdrive pipeline run --from file:///var/lib/logdrive/store#logs/app --to /data/logs --once
    Complete?                    logdrive pipeline audit /data/logs
    """


for command in (agent, certs, demo, pipeline, receiver, store):
    cli.add_command(command)


def main() -> None:
    """Run the command line; end with 0 done, 1 failed, 2 usage or configuration."""
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
        code = USAGE
    except LogdriveError as error:
        complain(str(error))
        code = FAILED
    sys.exit(code if isinstance(code, int) else 0)


if __name__ == "__main__":
    main()
