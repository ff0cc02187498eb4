import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree as ET

import pytest

from tests.tools.docs.hooks import on_page_content
from turngate import history

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_the_site_holds_each_page_and_has_no_warning(tmp_path: Path) -> None:
    """The site builds in strict mode, in which a dead link or a page missing from the navigation fails."""
    built = subprocess.run(
        (sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", tmp_path),
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"}
    pages |= {"contributing", "security", "changelog", "history"}
    assert pages == {page.parent.name for page in tmp_path.glob("*/index.html")}
    assert {page.parent.name for page in tmp_path.glob("history/*/index.html")} == {*history.engines()}
    for engine in history.engines():
        assert f'href="{engine}/"' in (tmp_path / "history/index.html").read_text("utf-8")
    assert ET.parse(tmp_path / "history/changes.atom").getroot().tag.endswith("feed")
    assert json.loads((tmp_path / "history/changes.json").read_text("utf-8"))["items"]
    contributing = (tmp_path / "contributing/index.html").read_text("utf-8")
    assert 'href="../exit-codes/#clause-sets"' in contributing
    loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?://[^"]+)"', contributing)
    assert [address for address in loaded if "github.io" not in address] == []


def test_an_option_stays_whole_at_the_end_of_a_line() -> None:
    """Code in a sentence keeps the dashes of an option with its name."""
    unused = cast(Any, None)
    html = on_page_content("<p>--a <code>probe --json</code></p><code><i>--b</i></code>", unused, unused, unused)
    expected = '<p>--a <code>probe <span class="unbroken">--json</span></code></p><code><i>--b</i></code>'
    assert html == expected
