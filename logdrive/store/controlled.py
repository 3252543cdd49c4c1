"""The controller of a store, where one is asked for: gRPC is imported only then."""

import contextlib
from collections.abc import AsyncIterator
from random import Random

import structlog

from logdrive.clock import Clock
from logdrive.disk import Disk
from logdrive.errors import ConfigError, Mistake
from logdrive.store.config import ControllerConfig
from logdrive.store.engine import Store


@contextlib.asynccontextmanager
async def controlled(
    store: Store, config: ControllerConfig | None, face: tuple[str, int], *, clock: Clock, random: Random, disk: Disk
) -> AsyncIterator[None]:
    """Serve what *config* asks for, if anything, while the context lasts; *face* is where the segments are served.

    Raises `ConfigError` where it can't be had.
    """
    if config is None:
        yield
        return
    try:
        from logdrive.store.controller.listening import controlling
    except ImportError as error:
        remedy = f"the controller needs gRPC, and {error.name} is not installed: pip install 'logdrive[pravega]', or leave the table out"
        raise ConfigError("listen", [Mistake("address", config.address, remedy)]) from error
    where, node = config.where, config.node(face)
    async with controlling(store, where, config.settings, node, clock=clock, random=random, disk=disk) as (host, port):
        log = structlog.get_logger("logdrive.store.controller")
        log.info("the controller listens", address=f"{host}:{port}", segments=f"{node[0]}:{node[1]}")
        yield
