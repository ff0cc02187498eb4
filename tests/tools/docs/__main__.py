"""`make readme`: updates the command outputs on the pages, and takes the pictures."""

import argparse
import sys
import tempfile
from functools import partial
from pathlib import Path

from tests.browser import pictures
from tests.browser.chromium import browser
from tests.tools.docs.outputs import ran, renewed

ROOT = Path(__file__).parents[3]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
PICTURE = ROOT / "docs" / "images" / "report.png"


def main() -> int:
    """Update the outputs, the picture of the README's report, and those of the server's page."""
    argparse.ArgumentParser(prog="python -m tests.tools.docs", description=__doc__).parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for page in PAGES:
            before = page.read_text("utf-8")
            page.write_text(renewed(before, partial(ran, folder=folder)), "utf-8")
        with browser(folder / "profile") as tab:
            tab.open(folder / "report.html")
            tab.screenshot(PICTURE)
    pictures.main(pictures.IMAGES)
    return 0


if __name__ == "__main__":
    sys.exit(main())
