"""Files of store and pipeline: every wrong value is told, at once, with its key."""

from pathlib import Path

import msgspec
import pytest

from logdrive.config.load import load_config
from logdrive.errors import ConfigError
from logdrive.pipeline.config import PipelineConfig
from logdrive.services.config import StoreConfig

_STORE = """[store]
path = "store"
[listen.pravega]
address = "h:x"
[listen.controller]
address = "127.0.0.1"
advertise = "h:0"
[listen.auth]
users = "users.toml"
token_secret = "secret"
[[retention]]
stream = "logs"
"""
_PIPELINE = """[pipeline]
from = "file:///s#a/b"
to = "tables"
start = "yesterday"
[spark]
master = "spark://"
[metrics]
address = "h:x"
[[silver.format]]
path = "*"
format = "jsn"
zone = "Europe/Nowhere"
table = "text"
"""


@pytest.mark.parametrize(
    ("text", "config", "keys"),
    [
        (
            _STORE,
            StoreConfig,
            [
                "store.path",
                "listen.pravega.address",
                "listen.controller.advertise",
                "listen.auth.users",
                "listen.auth.token_secret",
                "retention[0].stream",
            ],
        ),
        (
            _PIPELINE,
            PipelineConfig,
            [
                "pipeline.to",
                "pipeline.start",
                "spark.master",
                "metrics.address",
                "silver.format[0].format",
                "silver.format[0].zone",
                "silver.format[0].table",
            ],
        ),
    ],
    ids=["store", "pipeline"],
)
def test_all_wrong_values_of_a_file_are_told_at_once(
    tmp_path: Path, text: str, config: type[msgspec.Struct], keys: list[str]
) -> None:
    path = tmp_path / "config.toml"
    path.write_text(text)
    with pytest.raises(ConfigError) as caught:
        load_config(str(path), config, {})
    assert [mistake.key for mistake in caught.value.mistakes] == keys
