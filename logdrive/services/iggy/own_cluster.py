"""How a store of ours is told from another server that speaks Iggy's protocol."""

from typing import Final

CLUSTER: Final = "logdrive"
"""The name of its cluster of one: it tells our clients that an acknowledgement is durable."""
