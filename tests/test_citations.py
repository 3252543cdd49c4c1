"""Citations in code and documentation lead somewhere: pages, headings and rules that exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = ("agent", "logdrive", "receiver")
CODE = sorted(
    path
    for room in ("agent", "bench", "logdrive", "receiver", "tests")
    for path in (ROOT / room).rglob("*.py")
)
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
MAPS = sorted(
    [ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "docs/protocols").glob("*")]
)
SOURCES = [
    *CODE,
    *(path for ending in ("c", "j2", "proto") for path in (ROOT / "logdrive").rglob(f"*.{ending}")),
]
SAMPLES = sorted([*(ROOT / "config").glob("*.toml"), *(ROOT / "systemd").glob("*.service")])
RULES = ROOT / "docs/protocols/delivery.md"

_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
_CITED_PAGE = re.compile(r"\b(docs/[\w./-]+\.md)(?:#([\w-]+))?")
_CODE_SPAN = re.compile(r"`([^`\s]+)`")
_WHOLE_PATH = re.compile(r"(?:agent|bench|config|docs|logdrive|receiver|systemd|tests)/\D.*")
_FILE_NAME = re.compile(r"[\w./-]+\.(?:c|j2|proto|py)")
_DEFINED_NAME = re.compile(r"\w*_\w+|(?!.+\.md)[A-Z]\w+(?:\.\w+)?")
_CITED_RULES = re.compile(r"\brules? ((?:[A-Z]\d+(?:,? and |, )?)+)")


def anchors_of(page: Path) -> set[str]:
    """Return what a link to *page* may name: its headings as GitHub does, and its own anchors."""
    text = page.read_text()
    plain = (re.sub(r"[`*]", "", heading) for heading in _HEADING.findall(text))
    slugs = (re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain)
    return {*slugs, *_ANCHOR.findall(text)}


def unwrapped(path: Path) -> str:
    """Return a file's text with each run of blanks, line breaks and comment signs as one blank."""
    return re.sub(r"\s+(?:# )?", " ", path.read_text())


def broken_links(page: Path) -> Iterator[str]:
    for target, anchor in _LINK.findall(page.read_text()):
        path = (page.parent / target).resolve() if target else page
        if not path.exists():
            yield target
        elif anchor and anchor not in anchors_of(path):
            yield f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_between_pages_lead_to_files_and_headings(page: Path) -> None:
    assert list(broken_links(page)) == []


def test_pages_cited_in_code_and_samples_exist_with_the_heading_that_is_named() -> None:
    cited = [
        (path.relative_to(ROOT), page, anchor)
        for path in (*CODE, *SAMPLES)
        for page, anchor in _CITED_PAGE.findall(unwrapped(path))
    ]
    assert len(cited) > 10
    missing = [
        (str(path), f"{page}#{anchor}")
        for path, page, anchor in cited
        if not (ROOT / page).exists() or (anchor and anchor not in anchors_of(ROOT / page))
    ]
    assert missing == []


def missing_files(page: Path) -> Iterator[str]:
    """Give the files that *page* names and that are not there, NAME standing for any.

    A path may lack its beginning where the page has named the folder.
    """
    for span in _CODE_SPAN.findall(page.read_text()):
        if "NAME" in span:
            continue
        if _WHOLE_PATH.fullmatch(span):
            if not list(ROOT.glob(span.rstrip("/"))):
                yield span
        elif _FILE_NAME.fullmatch(span) and not any(
            path.as_posix().endswith(f"/{span}") for path in SOURCES
        ):
            yield span


@pytest.mark.parametrize("page", MAPS, ids=lambda page: str(page.relative_to(ROOT)))
def test_files_that_a_page_names_exist(page: Path) -> None:
    assert list(missing_files(page)) == []


def test_names_that_the_architecture_gives_are_defined_in_code() -> None:
    spans = _CODE_SPAN.findall((ROOT / "docs/architecture.md").read_text())
    names = {part for span in spans if _DEFINED_NAME.fullmatch(span) for part in span.split(".")}
    assert len(names) > 5
    code = "\n".join(path.read_text() for path in CODE)
    defined = set(
        re.findall(r"\b(?:class|def) (\w+)|^ *(\w+)(?:: .*)?(?: =|$)", code, re.MULTILINE)
    )
    assert names - {name for pair in defined for name in pair} == set()


def test_rules_cited_in_code_have_an_anchor_among_the_rules_of_delivery() -> None:
    known = {anchor.upper() for anchor in _ANCHOR.findall(RULES.read_text())}
    cited = {
        rule
        for path in CODE
        for rules in _CITED_RULES.findall(unwrapped(path))
        for rule in re.findall(r"[A-Z]\d+", rules)
    }
    assert len(cited) > 20
    assert cited - known == set()


def test_no_code_cites_a_specification_or_history_that_is_not_in_the_documentation() -> None:
    product = [path for path in CODE if path.relative_to(ROOT).parts[0] in ROOMS]
    vague = re.compile(r"\b[Ss]pecification, section|\bhistory \d|\bhistories \d")
    assert [str(path) for path in product if vague.search(unwrapped(path))] == []
