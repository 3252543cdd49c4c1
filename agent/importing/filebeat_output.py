"""Reads output.logstash of a filebeat.yml."""

from typing import Any, Final

from agent.importing.imported import Imported
from agent.importing.settings import Settings, as_list, duration_seconds
from logdrive.wire.lumberjack.limits import WINDOWS_IN_FLIGHT

_PORT: Final = 5044
_HIGHEST_LEVEL: Final = 3
"""The highest level of deflate that the agent takes."""
_SYSTEM_CA: Final = "/etc/ssl/certs/ca-certificates.crt"
_NOT_NEEDED: Final = {
    "bulk_max_size": "windows adapt to the link",
    "worker": "each receiver has one connection, with up to windows_in_flight windows on the way",
    "workers": "each receiver has one connection, with up to windows_in_flight windows on the way",
    "slow_start": "windows adapt to the link",
    "max_retries": "what is not acknowledged is sent again for as long as it takes",
    "escape_html": "JSON is not escaped for HTML",
    "index": "`@metadata.beat` is logdrive",
    "ssl.enabled": "",
}


def import_output(settings: Settings, imported: Imported) -> None:
    """Add the [output] of Filebeat's output.logstash; other outputs are remarks."""
    others = [key for key, _ in settings.left() if key.startswith("output.")]
    theirs = Settings(settings.take_table("output.logstash"), "output.logstash")
    for name in sorted({key.split(".")[1] for key in others} - {"logstash"}):
        settings.take_table(f"output.{name}")
        imported.add_remark(
            f"output.{name}", "the agent sends to logdrive's receiver, or to what speaks Lumberjack"
        )

    ours = imported.output
    ours["hosts"] = [_with_port(str(host)) for host in as_list(theirs.take("hosts"))]
    if ours["hosts"]:
        ours["dialect"] = "lumberjack/2"
        imported.add_remark(
            "output.logstash",
            'dialect = "lumberjack/2" is what Logstash speaks, at least once; with a receiver of '
            "logdrive leave the key out: exactly once",
        )
    else:
        ours["hosts"] = [f"127.0.0.1:{_PORT}"]
        imported.add_remark(
            "output.logstash.hosts", "there is none: write logdrive's receivers, and [output.tls]"
        )
    if theirs.take("loadbalance") is True:
        ours["mode"] = "balance"
    pipelining = theirs.take("pipelining")
    if isinstance(pipelining, int):
        ours["windows_in_flight"] = max(1, min(pipelining + 1, WINDOWS_IN_FLIGHT))
    for key, name in (("timeout", "timeout_seconds"), ("ttl", "max_connection_seconds")):
        if seconds := duration_seconds(theirs.take(key)):
            ours[name] = seconds
    backoff = theirs.take_table("backoff")
    for key, name in (("init", "initial_seconds"), ("max", "max_seconds")):
        if seconds := duration_seconds(backoff.get(key)):
            ours.setdefault("backoff", {})[name] = seconds
    _take_compression(theirs, ours, imported)
    ours["tls"] = _tls(theirs, imported)

    for key, value in theirs.left():
        name = key.removeprefix("output.logstash.")
        if name == "enabled" and value is False:
            imported.add_remark(key, "the output is not enabled there")
        elif (reason := _NOT_NEEDED.get(name, "has no counterpart")) and name != "enabled":
            imported.add_remark(key, reason)


def _take_compression(theirs: Settings, ours: dict[str, Any], imported: Imported) -> None:
    level = theirs.take("compression_level")
    if level == 0:
        ours["compression"] = "none"
    elif isinstance(level, int):
        ours["level"] = min(level, _HIGHEST_LEVEL)
        if level > _HIGHEST_LEVEL:
            imported.add_remark(
                f"{theirs.key('compression_level')}: {level}",
                f"is level = {_HIGHEST_LEVEL}, the highest of deflate here",
            )


def _with_port(host: str) -> str:
    host = host.rpartition("://")[2].rstrip("/")
    is_ipv6 = host.count(":") > 1 and not host.startswith("[")
    if is_ipv6:
        host = f"[{host}]"
    return host if host.rpartition(":")[2].isdigit() and "]" not in host[-1:] else f"{host}:{_PORT}"


def _tls(theirs: Settings, imported: Imported) -> Any:
    """Return `[output.tls]`, or "off" where Filebeat has no TLS."""
    ssl = {
        name.removeprefix("ssl."): theirs.take(name)
        for name in [key.removeprefix("output.logstash.") for key, _ in theirs.left()]
        if name.startswith(("ssl.", "tls."))
    }
    if not ssl or ssl.pop("enabled", True) is False:
        return "off"
    authorities = as_list(ssl.pop("certificate_authorities", None))
    table: dict[str, Any] = {"ca": str(authorities[0]) if authorities else _SYSTEM_CA}
    if len(authorities) != 1:
        imported.add_remark(
            "output.logstash.ssl.certificate_authorities",
            "`ca` is one file: put all authorities into it"
            if authorities
            else "there is none: the system's are taken",
        )
    for key, name in (("certificate", "cert"), ("key", "key")):
        if value := ssl.pop(key, None):
            table[name] = str(value)
    for name, value in table.items():
        if "-----BEGIN" in value:
            table[name] = f"/etc/logdrive/tls/{name}.pem"
            imported.add_remark(
                f"output.logstash.ssl ({name})",
                f"is the text itself and not a file: write it into {table[name]}",
            )
    mode = ssl.pop("verification_mode", None)
    if mode not in (None, "full", "strict"):
        imported.add_remark(
            "output.logstash.ssl.verification_mode",
            f"{mode} is not to be had: the receiver's certificate is always verified; its name may "
            "be given as server_name",
        )
    for name in ssl:
        imported.add_remark(f"output.logstash.ssl.{name}", "has no counterpart")
    return table
