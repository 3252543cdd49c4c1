"""Where commands look for a configuration that no --config names: where the units have it."""

from typing import Final

AGENT_CONFIG: Final = "/etc/logdrive/agent.toml"
RECEIVER_CONFIG: Final = "/etc/logdrive/receiver.toml"
STORE_CONFIG: Final = "/etc/logdrive/store.toml"
