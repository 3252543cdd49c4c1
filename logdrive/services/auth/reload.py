"""Reloads the users when their file changes, so that no restart is needed.

The file is read once it has changed and then stayed the same for one interval: a file that is only
half written would refuse logins. A file that can't be used changes nothing.
"""

import asyncio
from typing import Final

import structlog

from logdrive.errors import ConfigError
from logdrive.host.disk import Disk
from logdrive.host.file_stamp import FileStamp, read_stamp
from logdrive.services.auth.users import Users, read_users

CHECK_SECONDS: Final = 1.0
"""Seconds between two looks at the file."""


async def reload_users(users: Users, path: str, loaded: FileStamp | None, disk: Disk) -> None:
    """Replace *users* whenever the file at *path* changes, until cancelled.

    *loaded* is the file's stamp when the present users were read.
    """
    log = structlog.get_logger("logdrive.store.access").bind(file=path)
    latest = loaded
    while True:
        await asyncio.sleep(CHECK_SECONDS)
        previous, latest = latest, read_stamp(disk, path)
        if latest == loaded or latest != previous:
            continue  # nothing new, or still being written

        loaded = latest
        try:
            config = read_users(disk, path)
        except ConfigError as error:
            log.error(
                "the changed users file can't be used, the former users stay in force",
                reason="; ".join(map(str, error.mistakes)),
            )
            continue
        users.replace_users(config)
        log.info("users were reloaded", users=len(config.user))
