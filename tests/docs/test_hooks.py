import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

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
    pages = {page.stem for page in (ROOT / "docs").glob("*.md")} - {"index"} | {"contributing", "security", "changelog"}
    assert pages == {page.parent.name for page in tmp_path.glob("*/index.html")}
    contributing = (tmp_path / "contributing/index.html").read_text("utf-8")
    assert 'href="../how-it-works/#where-things-are"' in contributing
    loaded = re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="(https?://[^"]+)"', contributing)
    assert [address for address in loaded if "github.io" not in address] == []
