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
SAMPLES = sorted([*(ROOT / "config").glob("*.toml"), *(ROOT / "systemd").glob("*.service")])
RULES = ROOT / "docs/protocols/delivery.md"

_HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
_ANCHOR = re.compile(r'<a id="([^"]+)"></a>')
_LINK = re.compile(r"\]\((?!\w+:)([^)#\s]*)(?:#([^)\s]+))?\)")
_CITED_PAGE = re.compile(r"\b(docs/[\w./-]+\.md)(?:#([\w-]+))?")
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
