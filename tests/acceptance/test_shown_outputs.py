"""The outputs that README and docs show are what the commands print with real engines."""

from pathlib import Path

import pytest

from tests.tools.docs.outputs import PLACE, ran, unvarying

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
SHOWN = [
    pytest.param(place["command"], place[0], id=f"{page.name}: {place['command']}")
    for page in PAGES
    for place in PLACE.finditer(page.read_text("utf-8"))
]
pytestmark = pytest.mark.engines


@pytest.mark.parametrize("command, block", SHOWN)
def test_what_a_page_shows_is_what_the_command_prints(command: str, block: str, tmp_path: Path) -> None:
    """A command prints the lines that its page shows, but for ids, ports, dates, durations and progress."""
    shown = block.partition(f"$ {command}\n")[2].partition("\n```")[0]
    assert unvarying(ran(command, tmp_path)) == unvarying(shown)
