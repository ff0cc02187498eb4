"""Draws the states of a run on the page that explains them, from the table of the code.

`python -m tests.tools.docs.run_states` updates the page. A test checks that it is up to date.
"""

import re
from pathlib import Path

from turngate_reference.states import TRANSITIONS, Cause, State

FILE = Path(__file__).parents[3] / "docs" / "how-it-works.md"
_PLACE = re.compile(r"(?<=<!-- run states -->\n).*?(?=<!-- /run states -->)", re.DOTALL)


def with_states(page: str) -> str:
    """Return the page with an up-to-date drawing; ValueError if it has no place for one."""
    renewed, count = _PLACE.subn("\n".join(["```text", *_lines(), "```", ""]), page)
    if count != 1:
        raise ValueError(f"{FILE} needs one place for the states of a run, and has {count}")
    return renewed


def _lines() -> list[str]:
    before, cause_width = max(map(len, State)) + 1, max(map(len, Cause)) + 1
    lines = []
    for state, causes in TRANSITIONS.items():
        for place, (cause, to) in enumerate(causes.items()):
            branch = "┬" if place == 0 else "└" if place == len(causes) - 1 else "├"
            source = f"{state} ".ljust(before, "─") if place == 0 else " " * before
            lines.append(f"{source}{branch}─ {f'{cause} '.ljust(cause_width, '─')}─▶ {to}")
    return lines


if __name__ == "__main__":
    FILE.write_text(with_states(FILE.read_text("utf-8")), "utf-8")
