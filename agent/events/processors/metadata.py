"""Adds what is known of where a source's bytes come from: host, container, Kubernetes.

What wrote a container's file is in its path, as kubelet and Docker name them:

    /var/log/pods/NAMESPACE_POD_UID/CONTAINER/RESTARTS.log
    /var/log/containers/POD_NAMESPACE_CONTAINER-ID.log
    /var/lib/docker/containers/ID/ID-json.log

Rotated files have the same names with something behind them.
"""

import re
from typing import Any, Final

import orjson

from agent.events.event import Event
from agent.events.processors.counters import RuleCounter

_NAME: Final = r"[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?"
"""A name in Kubernetes. It has no underscore, so these part names."""
_ID: Final = r"[0-9a-f]{64}"

_POD_FILE: Final = re.compile(
    rf"/pods/(?P<namespace>{_NAME})_(?P<pod>{_NAME})_(?P<uid>[0-9a-f-]{{32,36}})"
    rf"/(?P<container>{_NAME})/(?P<restarts>\d+)\.log[^/]*"
)
_LINK: Final = re.compile(
    rf"/containers/(?P<pod>{_NAME})_(?P<namespace>{_NAME})_(?P<container>{_NAME})"
    rf"-(?P<id>{_ID})\.log[^/]*"
)
_DOCKER_FILE: Final = re.compile(rf"/containers/(?P<id>{_ID})/(?P=id)-json\.log[^/]*")


class MetadataAdder:
    """Sets fields that all events of a source have in common."""

    def __init__(self, fields: dict[str, Any], counter: RuleCounter) -> None:
        self._encoded = orjson.dumps(fields) if fields else b""
        self._counter = counter

    def process_events(self, events: list[Event]) -> list[Event]:
        """Set fields of *events*; see `Processor`. What a line says itself stays beside them."""
        if not self._encoded:
            return events
        for event in events:
            # no two events may share a table, which a later processor may change
            for key, value in orjson.loads(self._encoded).items():
                before = event.fields.get(key)
                event.fields[key] = before | value if isinstance(before, dict) else value
        self._counter.events += len(events)
        return events


def container_fields(path: str) -> dict[str, Any]:
    """Return what the *path* of a file says of the container that wrote it, {} without one."""
    found = _LINK.search(path) or _DOCKER_FILE.search(path)
    return {"container": {"id": found["id"]}} if found is not None else {}


def kubernetes_fields(path: str) -> dict[str, Any]:
    """Return what the *path* of a file says of the pod that wrote it, {} for a file of none."""
    found = _POD_FILE.search(path) or _LINK.search(path)
    if found is None:
        return {}
    names = found.groupdict()
    pod, container = {"name": names["pod"]}, dict[str, Any](name=names["container"])
    if "uid" in names:
        pod["uid"] = names["uid"]
        container["restarts"] = int(names["restarts"])
    return {"kubernetes": {"namespace": names["namespace"], "pod": pod, "container": container}}
