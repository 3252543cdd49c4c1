"""The id of the running kernel, by which two processes know that they are on one host."""

from typing import Final

_PATH: Final = "/proc/sys/kernel/random/boot_id"  # a new UUID with each start of the kernel


def boot_id() -> str:
    """Return the id, which containers on one host share; "" where the system has none."""
    try:
        with open(_PATH, encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return ""
