"""De-duplication by the ids of messages, which real servers have given up or get wrong."""

from pathlib import Path

import pytest

from tests.interop.iggy.clients import VSR, Driven, logged_in
from tests.support.iggy.face import IggyFace

pytestmark = pytest.mark.process

TABLE = "[listen.iggy.deduplication]\nentries = 100\nseconds = 600\n"


def _send(driven: Driven, *pairs: tuple[int, str]) -> None:
    for chosen_id, payload in pairs:
        driven.call("send_as", "s", "t", [payload.encode().hex()], chosen_id=chosen_id)


@pytest.mark.parametrize(
    ("table", "expected"),
    [(TABLE, [b"one", b"two", b"three"]), ("", [b"one", b"two", b"again", b"again", b"three"])],
    ids=["on", "off"],
)
def test_a_message_whose_id_came_before_is_stored_again_only_where_nothing_else_is_asked_for(
    tmp_path: Path, table: str, expected: list[bytes]
) -> None:
    with IggyFace(tmp_path, more=table) as face:
        with logged_in(VSR, face.address) as driven:
            driven.call("create_stream", "s")
            driven.call("create_topic", "s", "t", 1)
            _send(driven, (1, "one"), (2, "two"), (1, "again"))
        face.kill()
        face.start()
        with logged_in(VSR, face.address) as driven:
            _send(driven, (2, "again"), (3, "three"))
            assert driven.payloads("s", "t") == expected
