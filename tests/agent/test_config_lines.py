"""The keys of an input that say what its lines are: mistakes name their key, a reason, a remedy."""

import encodings
import pkgutil
from pathlib import Path

import pytest

from agent.config.config import AgentConfig
from agent.config.encodings import canonical_encoding
from agent.config.lines import LinesTable
from logdrive.config.load import load_config
from logdrive.errors import ConfigError
from tests.agent.test_config import MINIMAL

CODECS = [module.name for module in pkgutil.iter_modules(encodings.__path__)]
REFUSED = {
    "aliases", "base64_codec", "bz2_codec", "charmap", "cp037", "cp1026", "cp1140", "cp273",
    "cp424", "cp500", "cp875", "hex_codec", "hz", "idna", "iso2022_jp", "iso2022_jp_1",
    "iso2022_jp_2", "iso2022_jp_2004", "iso2022_jp_3", "iso2022_jp_ext", "iso2022_kr", "mbcs",
    "oem", "punycode", "quopri_codec", "raw_unicode_escape", "rot_13", "undefined",
    "unicode_escape", "utf_7", "uu_codec", "zlib_codec",
}  # fmt: skip


@pytest.mark.parametrize(
    ("keys", "where", "why"),
    [
        ('encoding = "klingon"', "input[0].encoding", "no encoding that is known"),
        ('encoding = "iso2022_jp"', "input[0].encoding", "shifts between character sets"),
        ('encoding = "utf-7"', "input[0].encoding", "shifts between character sets"),
        ('encoding = "cp037"', "input[0].encoding", "has no ASCII"),
        ('encoding = "rot13"', "input[0].encoding", "no encoding"),
        ('line_end = ""', "input[0].line_end", "write"),
        ('line_end = "\\r\\n"', "input[0].line_end", "leave it out"),
        ('line_end = "\\u00a7"\nencoding = "latin-1"', "input[0].line_end", "must be ASCII"),
        ('line_end = "END"\nencoding = "gbk"', "input[0].line_end", "may be a byte of another"),
        (f'line_end = "{"=" * 65}"', "input[0].line_end", "longer than 64 bytes"),
        ("longest_event_bytes = 0", "input[0].longest_event_bytes", "write"),
        ("longest_event_bytes = 524_289", "input[0].longest_event_bytes", "write"),
        ("[input.multiline]", "input[0].multiline", "is needed"),
        ('[input.multiline]\npreset = "cobol"', "input[0].multiline.preset", "java"),
        ('[input.multiline]\npreset = "go"\nend = "x"', "input[0].multiline", "its own patterns"),
        ("[input.multiline]\npreset = []", "input[0].multiline", "is needed"),
        (
            '[input.multiline]\npreset = ["go", "java", "go"]',
            "input[0].multiline.preset",
            "only once",
        ),
        ('[input.multiline]\npreset = ["go", "c"]', "input[0].multiline.preset[1]", "java"),
        ('[input.multiline]\nend = "x"\ncontinue = "y"', "input[0].multiline", "contradict"),
        ('[input.multiline]\nend = "x"\ngoes_on = "y"', "input[0].multiline", "contradict"),
        ('[input.multiline]\nstart = "(x"', "input[0].multiline.start", "never closed"),
        ('[input.multiline]\nstart = "(?=x)"', "input[0].multiline.start", "lookahead"),
        ('[input.multiline]\nstart = "x"\nmax_lines = 1', "input[0].multiline.max_lines", "write"),
        ('[input.multiline]\nstart = "x"\nmax_bytes = 0', "input[0].multiline.max_bytes", "write"),
        (
            '[input.multiline]\nstart = "x"\nmax_seconds = 0',
            "input[0].multiline.max_seconds",
            "write",
        ),
    ],
)
def test_mistakes_about_lines_name_their_key_and_why(
    tmp_path: Path, keys: str, where: str, why: str
) -> None:
    path = tmp_path / "agent.toml"
    path.write_text(MINIMAL.replace('paths = ["/l/*"]', f'paths = ["/l/*"]\n{keys}'))
    with pytest.raises(ConfigError) as caught:
        load_config(str(path), AgentConfig, {})
    (mistake,) = caught.value.mistakes
    assert mistake.key == where
    assert why in str(mistake)


@pytest.mark.parametrize("name", CODECS)
def test_each_codec_of_python_is_one_of_files_or_is_refused(name: str) -> None:
    if name in REFUSED:
        with pytest.raises(ValueError, match=r"encoding|shifts|ASCII"):
            canonical_encoding(name)
    else:
        table = LinesTable(encoding=name)
        assert table.line_end_bytes in (b"\n", b"\n\0", b"\0\n", b"\n\0\0\0", b"\0\0\0\n")
