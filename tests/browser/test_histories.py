"""The pages about histories in a real Chromium, as the site shows them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.browser.axe import violations
from tests.browser.chromium import DESKTOP, PHONE, Browser
from tests.tools.docs.hooks import ROOT

COLOURS = """[...new Set([...document.querySelectorAll(
  '.history-strip :is(.compatible, .degraded, .broken)')].map(bar => getComputedStyle(bar).fill))]"""


@pytest.fixture(name="site", scope="module")
def _site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site."""
    site = tmp_path_factory.mktemp("site")
    subprocess.run(
        (sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", site),
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        check=True,
    )
    return site


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("scheme", ["default", "slate"])
@pytest.mark.parametrize("name", ["history/codex", "history"])
def test_a_page_about_histories_can_be_read_by_everybody(
    tab: Browser, site: Path, name: str, scheme: str, size: tuple[int, int]
) -> None:
    """axe-core finds no violation, nothing is wider than the screen, and the verdicts differ in light and dark."""
    tab.open(site / name / "index.html", size)
    tab.ask(f"document.body.dataset.mdColorScheme = '{scheme}'")
    tab.ask("document.querySelectorAll('details').forEach(folded => folded.open = true)")
    found = violations(tab, "article")
    # the theme lets a wide table scroll
    assert [violation for violation in found if "md-typeset__scrollwrap" not in violation] == []
    assert tab.ask("document.documentElement.scrollWidth") == size[0]
    if name == "history/codex":
        assert len(tab.ask(COLOURS)) == 3


def test_light_and_dark_have_their_own_colours(tab: Browser, site: Path) -> None:
    """The bars are lighter on a dark ground."""
    tab.open(site / "history/codex/index.html")
    seen = []
    for scheme in ("default", "slate"):
        tab.ask(f"document.body.dataset.mdColorScheme = '{scheme}'")
        seen.append(tab.ask(COLOURS))
    assert not {*seen[0]} & {*seen[1]}
