"""Lines of containers: CRI and Docker."""

from logdrive.pipeline.formats.catalog import recognize
from tests.logdrive.pipeline.formats.log_lines import log_lines, parse, utc

TIME = "2016-10-06T00:17:09.669794202Z"
READ = utc(2016, 10, 6, 0, 17, 9, 669794)


def test_a_line_of_cri_says_whether_more_follows() -> None:
    lines = [f"{TIME} stdout P a long", f"{TIME} stdout F line", f"{TIME} stderr F", "x"]
    assert recognize(log_lines(lines[:3])) == "cri"
    assert parse("cri", lines) == [
        {"stream": "stdout", "partial": True, "message": "a long", "time": READ},
        {"stream": "stdout", "partial": False, "message": "line", "time": READ},
        {"stream": "stderr", "partial": False, "time": READ},
        {"reason": "no cri line"},
    ]


def test_a_line_of_docker_is_unescaped() -> None:
    def docker(log: str) -> str:
        return f'{{"log":"{log}","stream":"stdout","time":"{TIME}"}}'

    lines = [docker(r"say \"h\u00e9\"\n"), docker("a long"), docker(r"\ud800\n"), docker("\0")]
    assert recognize(log_lines(lines[:3])) == "docker"
    head = {"stream": "stdout", "time": READ}
    assert parse("docker", lines) == [
        {"message": 'say "hé"', "partial": False, **head},
        {"message": "a long", "partial": True, **head},
        {"message": r"\ud800\n", "partial": True, **head},  # nothing that UTF-8 can hold
        {"reason": "no docker line"},
    ]
