"""Users that were changed in their file come into force without a restart, as renewed certificates
do.

The file is looked at again and again, and read once it is another one and stands still, so that
nobody is refused because it was only half written. One that can't be used changes nothing.
"""

import asyncio
from typing import Final

import structlog

from logdrive.errors import ConfigError
from logdrive.host.disk import Disk
from logdrive.host.stamp import FileStamp, stamp_of
from logdrive.services.auth.users import Users, read_users

LOOK_SECONDS: Final = 1.0


async def follow(users: Users, path: str, used: FileStamp, disk: Disk) -> None:
    """Let *users* be those in the file at *path*, which was read when its state was *used*, until
    cancelled.
    """
    log = structlog.get_logger("logdrive.store.access").bind(file=path)
    seen = used
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        before, seen = seen, stamp_of(disk, path)
        if seen == used or seen != before:
            continue
        used = seen
        try:
            config = read_users(disk, path)
        except ConfigError as error:
            log.error(
                "changed users can't be used, those of before stay",
                reason="; ".join(map(str, error.mistakes)),
            )
            continue
        users.replace(config)
        log.info("changed users are in force", users=len(config.user))
