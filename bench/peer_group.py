"""The peers as benchmarks, beside logdrive's own figures in the group `end_to_end`."""

from collections.abc import Mapping

from bench.frames import FORMS, frame_file
from bench.measure import Benchmark, Sample, Setting
from bench.peers import c_tools, rsyslog

C_TOOLS = "end_to_end.c_tools_json_frames"
C_TOOLS_RAW = "end_to_end.c_tools_raw_lines"
IGZIP = "end_to_end.igzip_alone"
RSYSLOG = "end_to_end.rsyslog_relp_tls"


def _c_tools(form: str | None) -> Benchmark:
    """Make the pipeline carry the log in *form*, None for the bare lines."""

    def prepare(setting: Setting) -> None:
        if form is not None:
            frame_file(setting.log, form)

    def run(setting: Setting) -> Mapping[str, Sample]:
        payload = setting.log if form is None else frame_file(setting.log, form)
        passage = c_tools.carry(
            payload, setting.work, setting.certificates, setting.seconds(20_000)
        )
        return {
            "lines_per_second": Sample(setting.lines / passage.seconds, "lines/s"),
            "raw_bytes": Sample(setting.log.stat().st_size / passage.seconds / 1e6, "MB/s"),
            "sender_cpu": Sample(passage.sender_cpu / setting.lines * 1e6, "µs/line"),
            "receiver_cpu": Sample(passage.receiver_cpu / setting.lines * 1e6, "µs/line"),
        }

    name, what = ("raw_lines", "the bare lines") if form is None else (form, form.replace("_", " "))
    return Benchmark(
        f"end_to_end.c_tools_{name}",
        f"igzip -1 | openssl | igzip -d | dd conv=fdatasync, {what}",
        run,
        c_tools.missing,
        prepare,
    )


def _rsyslog(setting: Setting) -> Mapping[str, Sample]:
    passage = rsyslog.carry(setting.log, setting.work, setting.certificates, setting.seconds(5_000))
    return {
        "lines_per_second": Sample(setting.lines / passage.seconds, "lines/s"),
        "raw_bytes": Sample(setting.log.stat().st_size / passage.seconds / 1e6, "MB/s"),
        "sender_cpu": Sample(passage.sender_cpu / setting.lines * 1e6, "µs/line"),
        "receiver_cpu": Sample(passage.receiver_cpu / setting.lines * 1e6, "µs/line"),
        "sender_rss": Sample(passage.sender_rss / 2**20, "MiB"),
        "receiver_rss": Sample(passage.receiver_rss / 2**20, "MiB"),
    }


def _igzip(setting: Setting) -> Mapping[str, Sample]:
    used = c_tools.compress(setting.log, setting.work, setting.seconds(20_000))
    return {"sender_cpu": Sample(used / setting.lines * 1e6, "µs/line")}


def peers() -> list[Benchmark]:
    """Return every peer: the C tools, with frames and with the bare lines, igzip, rsyslog."""
    igzip = Benchmark(
        IGZIP, "igzip -1 of the log alone, to /dev/null: CPU", _igzip, c_tools.missing
    )
    rsyslogd = Benchmark(
        RSYSLOG, "rsyslog imfile → omrelp/TLS → imrelp → omfile", _rsyslog, rsyslog.missing
    )
    return [*(_c_tools(form) for form in FORMS), _c_tools(None), igzip, rsyslogd]
