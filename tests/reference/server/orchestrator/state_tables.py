"""Generates the tables of a turn and of a kept process in `docs/how-it-works.md`.

`python -m tests.reference.server.orchestrator.state_tables` updates the file. A test checks that it is up to date.
"""

import re
from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from types import ModuleType
from typing import Any

from turngate_reference.server.orchestrator import kept_states, turn_states

FILE = Path(__file__).parents[4] / "docs" / "how-it-works.md"
BEGIN = "<!-- Generated from {}.py by tests.reference.server.orchestrator.state_tables -->\n"
END = "<!-- /generated -->\n"


def with_tables(text: str) -> str:
    """Return the text of the file with up-to-date tables; ValueError if it has no place for one."""
    for module in (turn_states, kept_states):
        begin = BEGIN.format(module.__name__.rpartition(".")[2])
        before, _, rest = text.partition(begin)
        _, end, after = rest.partition(END)
        if not end:
            raise ValueError(f"{FILE} has no place for {begin}")
        text = before + begin + _table(module) + END + after
    return text


def _table(module: ModuleType) -> str:
    rows = ["| state | event | next state | effects |", "| --- | --- | --- | --- |"]
    table: Mapping[str, Mapping[Any, tuple[str, tuple[str, ...]]]] = module.TABLE
    for state, row in table.items():
        events: dict[tuple[str, str], list[str]] = {}
        for event, (to, effects) in row.items():
            events.setdefault((to, ", ".join(effects)), []).append(_name(event))
        rows += [f"| {state} | {', '.join(names)} | {to} | {what} |" for (to, what), names in events.items()]
    return "\n".join(rows) + "\n"


def _name(event: StrEnum | type) -> str:
    return event if isinstance(event, StrEnum) else re.sub(r"(?<!^)(?=[A-Z])", " ", event.__name__).lower()


if __name__ == "__main__":
    FILE.write_text(with_tables(FILE.read_text("utf-8")), "utf-8")
