"""Reads the tail inputs of a Fluent Bit configuration, in its classic form or as YAML."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from agent.importing.imported import Imported
from agent.importing.settings import as_list, duration_seconds, flatten_keys
from agent.importing.yaml_text import load_yaml
from agent.inputs.files.paths.suffixes import SUFFIXES
from logdrive.errors import ConfigError, Mistake

SECTION: Final = re.compile(r"(?m)^\s*\[\w+\]\s*$")
"""The head of a section in the classic form."""
_PARSERS: Final = {
    "json": "json",
    "docker": "docker",
    "cri": "cri",
    "logfmt": "logfmt",
    "apache": "access",
    "apache2": "access",
    "nginx": "access",
    "syslog-rfc5424": "syslog",
    "syslog-rfc3164": "syslog",
    "syslog-rfc3164-local": "syslog",
    "klog": "klog",
}
"""Formats by the names of the parsers that Fluent Bit comes with."""
_PRESETS: Final = ("java", "python", "go", "ruby")
_AUTOMATIC: Final = (
    "db",
    "refresh_interval",
    "rotate_wait",
    "skip_long_lines",
    "skip_empty_lines",
    "buffer_chunk_size",
    "buffer_max_size",
    "mem_buf_limit",
    "storage.",
    "inotify_watcher",
    "static_batch_size",
    "event_batch_size",
    "docker_mode",
    "tag",
    "path_key",
    "offset_key",
    "key",
    "alias",
    "log_level",
    "threaded",
    "multiline_flush",
)
"""Settings that the agent does not need, by how they begin."""


_OTHER_INPUTS: Final = {
    "stdin": "write [stdin]",
    "syslog": "write [[syslog]], or [[socket]] for a Unix socket",
    "systemd": "write [journald]",
    "tcp": "write [[syslog]], which takes lines of any form",
    "udp": "write [[syslog]], which takes datagrams of any form",
    "unix_socket": "write [[socket]]",
}
"""Inputs that have a counterpart, which is not made of their settings."""
_SERVICE: Final = {
    "http_": "[control] metrics is its counterpart, for Prometheus",
    "log_": "logdrive logs to standard error, in a form that `--log-format` chooses",
    "parsers_file": "its parsers are not read: write `format` and [input.multiline] for them",
    "plugins_file": "has no counterpart",
    "storage.": "what waits stays in its files, so there is no buffer",
    "grace": "[agent] drain_seconds is its counterpart, with 30 s",
    "flush": "while nothing is in flight, lines are sent at once",
    "daemon": "systemd starts it: docs/service.md",
}
"""Settings of the service, by how they begin, and what becomes of them."""
_OTHER_SECTIONS: Final = {
    "include": "is not read: import it, too, and put both files together",
    "env": "has no counterpart: write its values instead",
    "parser": "is not read: write `format` where it is used",
    "multiline_parser": "is not read: write [input.multiline] where it is used",
}


def import_fluent_bit(text: str, path: str, environment: Mapping[str, str]) -> Imported:
    """Return what the configuration *text*, which was read from *path*, means to the agent.

    Raises `ConfigError` if it has no section.
    """
    imported = Imported()
    sections = list(_sections(_substitute(text, environment, imported), path))
    if not sections:
        remedy = "it has no section: give the file with [INPUT], or `pipeline:` with `inputs:`"
        raise ConfigError(path, [Mistake("", "", remedy)])

    tails = 0
    for kind, number, settings in sections:
        where = f"{kind}[{number}]"
        name = str(settings.get("name", "")).lower()
        if kind == "input" and name == "tail":
            _import_tail(settings, where, imported)
            tails += 1
        elif kind == "input":
            counterpart = _OTHER_INPUTS.get(name, "has no counterpart, and is left out")
            imported.add_remark(where, f"is {name or 'a plugin without a name'}: {counterpart}")
        elif kind == "output":
            imported.add_remark(where, f"is {name}: [output] names logdrive's receivers instead")
        elif kind == "filter":
            imported.add_remark(where, f"is {name}: write [[input.processor]] for it")
        elif kind == "service":
            _import_service(settings, imported)
        else:
            imported.add_remark(
                f"{kind} {settings['name']}" if settings.get("name") else kind,
                _OTHER_SECTIONS.get(kind, "has no counterpart"),
            )
    if not tails:
        imported.add_remark("input", "there is no tail input: write an [[input]] by hand")

    imported.output["hosts"] = ["127.0.0.1:5044"]
    imported.output["tls"] = "off"
    imported.add_remark("output", "write the receiver's address and the certificates")
    return imported


def _substitute(text: str, environment: Mapping[str, str], imported: Imported) -> str:
    """Return *text* with the values of its variables, which it may set itself."""
    known: dict[str, str] = dict(re.findall(r"(?m)^\s*@SET\s+(\w+)\s*=\s*(.*?)\s*$", text))
    known |= environment

    def value(match: re.Match[str]) -> str:
        if match[1] not in known:
            imported.add_remark(match[0], "is not set here: write its value instead")
        return known.get(match[1], match[0])

    return re.sub(r"\$\{(\w+)\}", value, text)


def _import_service(settings: dict[str, Any], imported: Imported) -> None:
    for name in settings:
        why = next((text for start, text in _SERVICE.items() if name.startswith(start)), "")
        imported.add_remark(f"service.{name}", why or "has no counterpart")


def _sections(text: str, path: str) -> Iterator[tuple[str, int, dict[str, Any]]]:
    """Yield kind, number and settings, with small letters, of each section."""
    found = _classic(text) if SECTION.search(text) else _yaml(text, path)
    counts: dict[str, int] = {}
    for kind, settings in found:
        number = counts[kind] = counts.get(kind, -1) + 1
        yield kind, number, {str(key).lower(): value for key, value in settings.items()}


def _classic(text: str) -> Iterator[tuple[str, dict[str, Any]]]:
    kind, settings = "", dict[str, Any]()
    for line in text.splitlines():
        stripped = line.strip()
        if stripped.upper().startswith("@INCLUDE"):
            yield "include", {"name": stripped}
        if not stripped or stripped.startswith(("#", "@")):
            continue
        if stripped.startswith("[") and stripped.endswith("]"):
            if kind:
                yield kind, settings
            kind, settings = stripped[1:-1].lower(), {}
        elif kind:
            key, value = [*stripped.split(None, 1), ""][:2]  # spaces, or tabs
            settings[key] = value
    if kind:
        yield kind, settings


def _yaml(text: str, path: str) -> Iterator[tuple[str, dict[str, Any]]]:
    document = load_yaml(text, path)
    if not isinstance(document, Mapping):
        return
    if isinstance(service := document.get("service"), Mapping):
        yield "service", dict(flatten_keys(service))
    if document.get("env"):
        yield "env", {}
    for kinds in ("includes", "parsers", "multiline_parsers"):
        for one in as_list(document.get(kinds)):
            name = one.get("name") if isinstance(one, Mapping) else one
            yield kinds.removesuffix("s"), {"name": name}
    pipeline = document.get("pipeline", {})
    for kinds, kind in (("inputs", "input"), ("filters", "filter"), ("outputs", "output")):
        for settings in (pipeline or {}).get(kinds) or ():
            if isinstance(settings, Mapping):
                yield kind, dict(settings)


def _import_tail(settings: dict[str, Any], where: str, imported: Imported) -> None:
    settings.pop("name", None)
    ours: dict[str, Any] = {"paths": _listed(settings.pop("path", ""))}
    if exclude := _excluded(_listed(settings.pop("exclude_path", "")), where, imported):
        ours["exclude"] = exclude
    for key, paths in (("path", ours["paths"]), ("exclude_path", ours.get("exclude", ()))):
        for path in paths:
            if not path.startswith("/"):
                imported.add_remark(f"{where}.{key}: {path}", "is not absolute: left out")
    ours = {key: [path for path in paths if path.startswith("/")] for key, paths in ours.items()}
    if not ours["paths"]:
        imported.add_remark(where, "has no path, and is left out")
        return

    # Fluent Bit starts at the end unless it is told otherwise
    if str(settings.pop("read_from_head", "off")).lower() not in ("on", "true", "yes", "1"):
        ours["start"] = "end"
    if seconds := duration_seconds(settings.pop("ignore_older", None)):
        ours.setdefault("start", f"{seconds:.0f}s")
    _take_parser(settings, where, ours, imported)
    if encoding := settings.pop("unicode.encoding", None):
        ours["encoding"] = str(encoding).lower()
    automatic = [name for name in settings if name.startswith(_AUTOMATIC)]
    for name in settings:
        if name not in automatic:
            imported.add_remark(f"{where}.{name}", "has no counterpart")
    if automatic:
        why = "files are found, followed and named without, and no line is too long"
        imported.add_remark(where, f"needs no {', '.join(automatic)}: {why}")
    imported.add_input(ours, where)


def _excluded(patterns: list[str], where: str, imported: Imported) -> list[str]:
    """Return *patterns* as ours: in Fluent Bit's a star stands for slashes, too."""
    made = []
    for pattern in patterns:
        if pattern.startswith("*") and pattern.endswith(SUFFIXES):
            why = "is not needed: a compressed rotation is known as the file that it was"
            imported.add_remark(f"{where}.exclude_path: {pattern}", why)
        elif pattern.startswith("*"):
            made += [f"/**/{pattern}", *([f"/**/{pattern}/**"] if pattern.endswith("*") else [])]
        else:
            made.append(pattern)
    return made


def _take_parser(
    settings: dict[str, Any], where: str, ours: dict[str, Any], imported: Imported
) -> None:
    """Take the parser of lines and the parsers of several lines."""
    if name := settings.pop("parser", None):
        if known := _PARSERS.get(str(name).lower()):
            ours["format"] = known
        else:
            imported.add_remark(
                f"{where}.parser", f"{name} is not known: write `format`, or read it in the tables"
            )
    presets: list[str] = []
    for name in _listed(settings.pop("multiline.parser", "")):
        if name in ("docker", "cri"):
            # of both, the one that a file's lines have
            ours["format"] = name if ours.get("format", name) == name else "auto"
        elif name in _PRESETS:
            presets.append(name)
        else:
            imported.add_remark(f"{where}.multiline.parser", f"{name}: write [input.multiline]")
    if presets:
        ours["multiline"] = {"preset": presets[0] if len(presets) == 1 else presets}
    if str(settings.pop("multiline", "off")).lower() in ("on", "true"):
        first = settings.pop("parser_firstline", "its first line")
        imported.add_remark(
            f"{where}.multiline", f"write [input.multiline], with the pattern of {first} as start"
        )


def _listed(value: Any) -> list[str]:
    """Return what is between the commas of *value*, or the items of a list."""
    items = value if isinstance(value, list) else str(value).split(",")
    return [str(item).strip() for item in items if str(item).strip()]
