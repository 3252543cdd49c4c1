"""Reload of the configuration while the agent runs: SIGHUP, or a new version of agent.toml.

What changes is dropped no sooner than at the end of a window, and only that:

| table       | what a change does                                                               |
|-------------|----------------------------------------------------------------------------------|
| `[agent]`   | limits and times hold at once; `state_dir`, `id` and `host` need a restart        |
| `[[input]]` | files are matched anew (`rematch.py`)                                             |
| `[output]`  | connections with other settings are made anew (`Delivery.reload`)                 |
| any other   | needs a restart                                                                  |

A file with mistakes changes nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

from msgspec.structs import replace

from agent.config.config import AgentConfig
from agent.parts import AgentParts
from logdrive.errors import ConfigError, Mistake

_FIXED: Final = ("state_dir", "id", "host")
"""Keys of [agent] by which sources are known: they hold until a restart."""
_LIVE: Final = ("agent", "input", "output")
"""Tables that can be reloaded."""


class LiveConfig:
    """The configuration that a running agent follows; *config* is the one that it began with."""

    def __init__(self, config: AgentConfig, parts: AgentParts, log: Any) -> None:
        self.now = config
        """The configuration that holds; read-only outside of this file."""
        self._parts = parts
        self._log = log

    def change(self, config: AgentConfig) -> list[str]:
        """Follow *config* from now on; return the keys that hold only after a restart.

        Raises `ConfigError`, and changes nothing, where its certificates can't be used.
        """
        self._check_certificates(config)
        before, (now, fixed) = self.now, _keep_fixed(self.now, config)
        self.now = now
        for key in fixed:
            self._log.warning("a changed setting needs a restart: the former one holds", key=key)

        if now.agent != before.agent:
            self._change_limits(now)
        if now.input != before.input:
            self._change_inputs(now)
        if now.output != before.output:
            self._parts.connection.reload(now.output)
        # who asks for a reload has written all files
        self._parts.certificates.look(at_once=True)
        self._log.info("configuration reloaded")
        return fixed

    def _check_certificates(self, config: AgentConfig) -> None:
        """Raise `ConfigError` if *config* names other certificates, and these can't be used."""
        tls = config.output.tls
        if tls == "off" or tls == self.now.output.tls:
            return
        problem = self._parts.certificates.find_problem(tls)
        for key, path in (("ca", tls.ca), ("cert", tls.cert), ("key", tls.key)):
            if path is not None and problem.startswith(f"{path}: "):
                raise ConfigError("tls", [Mistake(key, path, problem.removeprefix(f"{path}: "))])
        if problem:
            raise ConfigError("agent", [Mistake("output.tls", "", problem)])

    def _change_limits(self, config: AgentConfig) -> None:
        parts, table = self._parts, config.agent
        parts.tailer.open_files.set_limits(table.max_open_files, table.close_idle_seconds)
        parts.deleted_files.set_limits(table.keep_removed_days, table.keep_removed_bytes)
        parts.checkpointer.keep_ended(table.keep_ended_days)
        parts.scanner.reload(table.rescan_seconds)

    def _change_inputs(self, config: AgentConfig) -> None:
        parts = self._parts
        parts.file_inputs.replace_tables(config.input)
        files = parts.rematcher.rematch_all()
        # new files are found now, and those of the checkpoint that are wanted again
        parts.scanner.reload(config.agent.rescan_seconds)
        self._log.info("inputs changed", files_changed=files.changed, files_let_go=files.let_go)


class Reloader:
    """Reloads when *asked* is set. *load* reads the configuration and may raise `ConfigError`.

    *naming* gives errors that are raised inside the names of the file and of keys. *on_begin* and
    *on_end* are called before and after each reload, for a service manager.
    """

    def __init__(
        self,
        load: Callable[[], AgentConfig],
        asked: asyncio.Event,
        *,
        naming: Callable[[AgentConfig], AbstractContextManager[None]] = lambda config: (
            nullcontext()
        ),
        on_begin: Callable[[], None] = lambda: None,
        on_end: Callable[[], None] = lambda: None,
    ) -> None:
        self._load = load
        self._asked = asked
        self._naming = naming
        self._on_begin = on_begin
        self._on_end = on_end

    async def run(self, change: Callable[[AgentConfig], Awaitable[object]], log: Any) -> None:
        """Pass each configuration that is loaded to *change*, until cancelled."""
        while True:
            await self._asked.wait()
            self._asked.clear()
            self._on_begin()
            try:
                config = self._load()
                with self._naming(config):
                    await change(config)
            except ConfigError as error:
                log.error("configuration not reloaded: the former one holds", reason=str(error))
            self._on_end()


def _keep_fixed(before: AgentConfig, config: AgentConfig) -> tuple[AgentConfig, list[str]]:
    """Return *config* with what can't change from *before*, and the keys that would have."""
    kept = {key: getattr(before.agent, key) for key in _FIXED}
    fixed = [f"agent.{key}" for key in _FIXED if kept[key] != getattr(config.agent, key)]
    tables = [name for name in config.__struct_fields__ if name not in _LIVE]
    fixed += [name for name in tables if getattr(before, name) != getattr(config, name)]
    former = {name: getattr(before, name) for name in tables}
    # sources know their tables by identity: one that says the same stays the same object
    inputs = [next((one for one in before.input if one == table), table) for table in config.input]
    return replace(config, agent=replace(config.agent, **kept), input=inputs, **former), fixed
