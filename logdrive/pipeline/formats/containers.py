r"""Lines of containers: the files that CRI runtimes write for Kubernetes, and Docker's json-file.

    2016-10-06T00:17:09.669794202Z stdout F message
    {"log":"message\n","stream":"stdout","time":"2016-10-06T00:17:09.669794202Z"}

What a container wrote in one line is in several if it is long: all but the last are `partial`.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from logdrive.pipeline.formats.format import FormatOptions, LogFormat
from logdrive.pipeline.formats.json_text import read_json_strings
from logdrive.pipeline.formats.matching import Groups
from logdrive.pipeline.formats.patterns import PatternFormat
from logdrive.pipeline.formats.traces import WithTraces

SCHEMA: Final = pa.schema(
    [
        pa.field("stream", pa.string()),
        pa.field("partial", pa.bool_()),
        pa.field("message", pa.string()),
    ]
)
TABLE: Final = "container"

_ISO = (
    r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)T(?P<hour>\d\d):(?P<minute>\d\d)"
    r":(?P<second>\d\d)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:\d\d)"
)
_CRI = rf"(?s)^{_ISO} (?P<stream>stdout|stderr) (?P<tag>[PF](?::\S*)?)(?: (?P<message>.*))?$"
_DOCKER = (
    r'^\{"log":"(?P<log>(?:[^"\\\x00-\x1f]|\\["\\/bfnrt]|\\u[0-9A-Fa-f]{4})*)"'
    r',"stream":"(?P<stream>stdout|stderr)"(?:,"attrs":\{[^{}]*\})?'
    rf',"time":"{_ISO}"\}}\s*$'
)


def cri_format(options: FormatOptions) -> LogFormat:
    """Return the format of CRI runtimes: containerd, CRI-O."""
    lines = PatternFormat("cri", TABLE, SCHEMA, _CRI, options, _derive_cri)
    return WithTraces(lines, streams="stream")


def docker_format(options: FormatOptions) -> LogFormat:
    """Return the format of Docker's log driver json-file."""
    lines = PatternFormat("docker", TABLE, SCHEMA, _DOCKER, options, _derive_docker)
    return WithTraces(lines, streams="stream")


def _derive_cri(groups: Groups) -> Mapping[str, pa.Array]:
    return {"partial": pc.starts_with(groups.values["tag"], "P")}


def _derive_docker(groups: Groups) -> Mapping[str, pa.Array]:
    said = groups.values["log"]
    texts = pc.binary_join_element_wise('"', said, '"', "").to_pylist()
    logs = pa.array(read_json_strings(texts), pa.string())
    whole = pc.ends_with(logs, "\n")
    return {
        "message": pc.if_else(pc.equal(said, ""), None, pc.utf8_rtrim(logs, "\r\n")),
        "partial": pc.invert(whole),
    }
