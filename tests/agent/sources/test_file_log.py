"""The log of single files: one line for many files, with each of them counted."""

import structlog
from structlog.testing import capture_logs

from agent.sources.file_log import FileLog
from tests.support.virtual_time import VirtualClock, run


def test_a_line_about_one_file_is_written_as_it_is() -> None:
    async def main() -> None:
        clock = VirtualClock()
        log = FileLog(structlog.get_logger(), clock)
        with capture_logs() as lines:
            log.warning("file gone", "/a", position=5)
            log.write_due()
            assert lines == [], "others may follow"
            await clock.sleep(1)
            log.write_due()
            log.flush()
        assert lines == [
            {"event": "file gone", "log_level": "warning", "path": "/a", "position": 5}
        ]

    run(main())


def test_many_files_are_one_line_with_what_they_have_in_common_and_every_file_counted() -> None:
    async def main() -> None:
        clock = VirtualClock()
        log = FileLog(structlog.get_logger(), clock)
        with capture_logs() as lines:
            for number in range(3000):
                log.warning("file gone", f"/{number}", position=number, remedy="look")
                log.error("does not fit", f"/{number}")
                log.write_due()
                await clock.sleep(0.125)
            log.flush()
        gone = [line for line in lines if line["event"] == "file gone"]
        assert len(gone) <= 8  # in six and a half minutes
        assert sum(line["files"] for line in gone) == 3000
        assert gone[0] == {
            "event": "file gone",
            "log_level": "warning",
            "files": 9,
            "example": "/0",
            "remedy": "look",
        }
        assert sum(line["files"] for line in lines if line["log_level"] == "error") == 3000

    run(main())


def test_a_file_that_is_told_of_again_and_again_is_one_file() -> None:
    async def main() -> None:
        clock = VirtualClock()
        log = FileLog(structlog.get_logger(), clock)
        with capture_logs() as lines:
            for _ in range(120):
                log.warning("file can't be read", "/a", reason="Permission denied")
                await clock.sleep(0.5)
            log.flush()
        told = {
            "event": "file can't be read",
            "log_level": "warning",
            "path": "/a",
            "reason": "Permission denied",
        }
        assert lines == [told]

    run(main())
