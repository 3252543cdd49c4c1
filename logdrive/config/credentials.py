"""Credentials of systemd in a configuration: `${CREDENTIALS_DIRECTORY}/NAME` stands for a file.

A unit's LoadCredential= copies a file that only root may read to where the service alone can. The
directory is another one at each start, so no path can be written down.
"""

from collections.abc import Mapping
from typing import Any, Final

from logdrive.errors import Mistake

VARIABLE: Final = "CREDENTIALS_DIRECTORY"
_PREFIX: Final = f"${{{VARIABLE}}}/"
_REMEDY: Final = (
    f"{VARIABLE} is not set, as systemd does for a unit with LoadCredential=: start the service by "
    f"systemctl, or try it by hand with {VARIABLE}=/etc/credstore"
)


def expand_credentials(
    document: dict[str, Any], environ: Mapping[str, str]
) -> tuple[dict[str, Any], list[Mistake]]:
    """Return *document* with the directory's name in texts that begin with the variable.

    Return a mistake for each of them, too, where *environ* lacks it.
    """
    mistakes: list[Mistake] = []

    def expand(value: Any, key: str) -> Any:
        if isinstance(value, dict):
            return {
                name: expand(inner, f"{key}.{name}" if key else name)
                for name, inner in value.items()
            }
        if isinstance(value, list):
            return [expand(inner, f"{key}[{number}]") for number, inner in enumerate(value)]
        if not isinstance(value, str) or not value.startswith(_PREFIX):
            return value
        if VARIABLE not in environ:
            mistakes.append(Mistake(key, value, _REMEDY))
            return value
        return f"{environ[VARIABLE]}/{value.removeprefix(_PREFIX)}"

    return {name: expand(value, name) for name, value in document.items()}, mistakes
