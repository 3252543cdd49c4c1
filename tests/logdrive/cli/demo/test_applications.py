"""The demo's applications count exactly the lines and bytes that are in their files."""

import random
from pathlib import Path

from logdrive.cli.demo.applications import Applications


def test_books_agree_with_the_files_through_rotation(tmp_path: Path) -> None:
    applications = Applications(str(tmp_path), count=24, lines=20_000, random_=random.Random(1))
    while applications.write_burst(700):
        pass
    applications.close()
    files = list(tmp_path.iterdir())
    contents = [file.read_bytes() for file in files]
    assert applications.lines == 20_000 == sum(content.count(b"\n") for content in contents)
    assert applications.written == sum(map(len, contents))
    assert applications.files == len(files) >= 24 * 3
    assert all(content.endswith(b"\n") for content in contents)
