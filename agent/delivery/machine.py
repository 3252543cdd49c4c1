"""What is known of this machine, for the processor `metadata`."""

import os
import platform
from functools import cache
from typing import Any


@cache
def machine_fields(host: str) -> dict[str, Any]:
    """Return the fields of the machine that is called *host*; reads /etc/os-release once."""
    kernel = os.uname()
    system: dict[str, Any] = {"type": kernel.sysname.lower(), "kernel": kernel.release}
    try:
        release = platform.freedesktop_os_release()
    except OSError:
        release = {}
    for field, name in (("platform", "ID"), ("name", "NAME"), ("version", "VERSION_ID")):
        if name in release:
            system[field] = release[name]
    return {"host": {"name": host, "architecture": kernel.machine, "os": system}}
