"""Orchestrators for Codex, correct and wrong: a wrong one is a change of the correct one."""

from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from turngate.contract import load
from turngate.decoding import convert

_FOLDER = Path(__file__).parent
CORRECT = {"python": _FOLDER / "correct.py", "node": _FOLDER / "correct.mjs", "posix-shell": _FOLDER / "correct.sh"}
TEXT, STREAM = _FOLDER / "correct_text.py", _FOLDER / "correct_stream.py"


class Wrong(Struct, frozen=True, forbid_unknown_fields=True):
    """A mistake of one orchestrator: its rule, in which scenarios, and the rules whose breach follows from it."""

    id: str
    breaks: str
    scenarios: tuple[str, ...] = field(name="in")
    also: tuple[str, ...]
    changes: tuple[tuple[str, str], ...]
    of: Literal["python", "node"] = "python"

    def source(self) -> str:
        """Return the correct orchestrator with this mistake; ValueError if a change doesn't apply exactly once."""
        text = CORRECT[self.of].read_text("utf-8")
        for old, new in self.changes:
            if text.count(old) != 1:
                raise ValueError(f"{self.id}: {old!r} occurs {text.count(old)} times")
            text = text.replace(old, new)
        return text


def wrong() -> tuple[Wrong, ...]:
    """Read every wrong orchestrator."""
    file = _FOLDER / "wrong.yaml"
    return convert(load.parse(file.read_text("utf-8"), file.name, ours=True).data, tuple[Wrong, ...])
