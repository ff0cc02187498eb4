"""Orchestrators, correct and wrong: a wrong one, or one with another habit, is a change of a correct one."""

from pathlib import Path
from typing import Literal

from msgspec import Struct, field

from turngate.contract import load
from turngate.decoding import convert

_FOLDER = Path(__file__).parent
CORRECT = {"python": _FOLDER / "correct.py", "node": _FOLDER / "correct.mjs", "posix-shell": _FOLDER / "correct.sh"}
TEXT, STREAM, OPENCODE = (_FOLDER / f"correct_{name}.py" for name in ("text", "stream", "opencode"))
KEPT, SHARED = (_FOLDER / f"{name}.py" for name in ("kept", "shared"))
# what the orchestrators that keep a process do, wrong or not, by what they speak
_ANY = (
    *("", "two-turns", "ignores-ids", "accepts-silence", "accepts-eof", "decodes-pieces", "lets-act", "strips"),
    *("reconnects", "sends-twice", "resends", "repeats-the-prompt", "opens-twice", "forgets"),
)
_OPENS = (*_ANY, "starts-elsewhere", "opens-elsewhere", "several-sessions")
OF_PROCESS = {
    "acp": (*_OPENS, "stops-at-the-response"),
    "app_server": (*_OPENS, "turns-elsewhere", "leaves-it-to-a-file"),
    "stream_json": (*_ANY, "drops-options"),
    "serve": ("", "mixes-up", "names-it-in-a-header", "opens-elsewhere", "sends-twice", "repeats-the-prompt"),
}
SPOKEN_BY = {"acp": "gemini", "app_server": "codex", "stream_json": "claude", "serve": "opencode"}


def of_process(protocol: str, habit: str = "") -> tuple[str, ...]:
    """Return the program, with its arguments, that keeps a process and has a habit; empty: none."""
    program = (str(SHARED),) if protocol == "serve" else (str(KEPT), protocol)
    return (*program, *filter(None, [habit]))


class Changed(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A correct orchestrator of an engine, with changes."""

    id: str
    changes: tuple[tuple[str, str], ...]
    of: Literal["python", "node", "stream", "opencode"] = "python"
    engine: str = "codex"

    @property
    def base(self) -> Path:
        """The correct orchestrator that is changed."""
        return {"stream": STREAM, "opencode": OPENCODE, **CORRECT}[self.of]

    def source(self) -> str:
        """Return the orchestrator with its changes; ValueError if one doesn't apply exactly once."""
        text = self.base.read_text("utf-8")
        for old, new in self.changes:
            if text.count(old) != 1:
                raise ValueError(f"{self.id}: {old!r} occurs {text.count(old)} times")
            text = text.replace(old, new)
        return text


class Wrong(Changed, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A mistake of one orchestrator: its rule, in which scenarios, and the rules whose breach follows from it.

    alone: Whether it plays only these scenarios: its usual conversation, without which no other is reached, succeeds by
        chance.
    """

    breaks: str
    scenarios: tuple[str, ...] = field(name="in")
    also: tuple[str, ...]
    alone: bool = False


class Right(Changed, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A habit that no rule forbids, and the scenarios in which it shows."""

    scenarios: tuple[str, ...] = field(name="in")


def wrong() -> tuple[Wrong, ...]:
    """Read every wrong orchestrator."""
    return convert(_rows("wrong.yaml"), tuple[Wrong, ...])


def right() -> tuple[Right, ...]:
    """Read every orchestrator with another habit."""
    return convert(_rows("right.yaml"), tuple[Right, ...])


def _rows(name: str) -> object:
    return load.parse((_FOLDER / name).read_text("utf-8"), name, ours=True).data
