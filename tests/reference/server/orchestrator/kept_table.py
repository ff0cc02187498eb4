"""Generates the table of a kept process in `docs/how-it-works.md`.

`python -m tests.reference.server.orchestrator.kept_table` updates the file. A test checks that it is up to date.
"""

import re
from pathlib import Path

from turngate_reference.server.orchestrator.kept_states import TABLE, EventKind, KeptCause

FILE = Path(__file__).parents[4] / "docs" / "how-it-works.md"
BEGIN = (
    "<!-- Generated from kept_states.py; run `python -m tests.reference.server.orchestrator.kept_table` to update -->\n"
)
END = "<!-- /generated -->\n"


def with_table(text: str) -> str:
    """Return the text of the file with an up-to-date table."""
    before, _, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not end:
        raise ValueError(f"{FILE} has no place for the table")
    return before + BEGIN + _table() + END + after


def _table() -> str:
    rows = ["| state | event | next state | effects |", "| --- | --- | --- | --- |"]
    for state, row in TABLE.items():
        events: dict[tuple[str, str], list[str]] = {}
        for event, (to, effects) in row.items():
            events.setdefault((to, ", ".join(effects)), []).append(_name(event))
        rows += [f"| {state} | {', '.join(names)} | {to} | {what} |" for (to, what), names in events.items()]
    return "\n".join(rows) + "\n"


def _name(event: EventKind) -> str:
    return event if isinstance(event, KeptCause) else re.sub(r"(?<!^)(?=[A-Z])", " ", event.__name__).lower()


if __name__ == "__main__":
    FILE.write_text(with_table(FILE.read_text("utf-8")), "utf-8")
