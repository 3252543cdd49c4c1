"""What is logged of a streaming service that is away."""

from structlog.testing import capture_logs

from logdrive.services.outage import Outage


def test_each_reason_of_an_outage_is_logged_once_and_not_more_than_a_few() -> None:
    outage = Outage("iggy:8090")
    with capture_logs() as log:
        for _ in range(3):
            outage.report_failure("connection refused")
            outage.report_failure("invalid credentials")
        assert [entry["reason"] for entry in log] == ["connection refused", "invalid credentials"]
        for number in range(1000):
            outage.report_failure(f"refused {number}")
        assert len(log) == 8
        assert outage.reason == "refused 999"


def test_after_an_outage_that_is_over_the_next_one_is_logged_anew() -> None:
    outage = Outage("iggy:8090")
    with capture_logs() as log:
        outage.report_success()
        assert not log
        for _ in range(2):
            outage.report_failure("connection refused")
            outage.report_success()
    assert [entry["log_level"] for entry in log] == ["warning", "info"] * 2
    assert outage.reason is None
