"""Drifted recordings: real turns, changed as a release might change them.

They are made in memory from `fixtures` and the tables of `drifts`, so nothing can take one for a recording.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from turngate.contract import EngineContract, Stream
from turngate.model import Ended, Mode
from turngate.turn import TurnReading, read_turn

FIXTURES = Path(__file__).parents[2] / "fixtures"
REMOVED = object()
TAG = "Execution Info"
Item = dict[str, Any] | str
Change = Callable[["DriftedTurn"], None]


@dataclass(frozen=True, slots=True)
class Source:
    """Which recordings are drifted, and how they are written; `stream` holds records, the other one plain text.

    This repeats the contract on purpose: what the tests change in a contract must not change a drifted recording.
    """

    engine: str
    release: str
    stream: Stream
    style: Literal["ndjson", "json_document", "tagged_block"]
    session_field: str


@dataclass(slots=True)
class DriftedTurn:
    """A turn to be changed: records and lines of text of both streams, and how its process ended."""

    source: Source
    lines: dict[Stream, list[Item]]
    exit_code: int | None
    resumed: str | None
    turn_index: int
    ended: Ended = Ended.EXIT
    replaced: list[tuple[bytes, bytes]] = field(default_factory=list)

    @classmethod
    def load(cls, source: Source, name: str) -> "DriftedTurn":
        """Read a recording into records and lines."""
        folder = FIXTURES / source.engine / source.release / name
        about = yaml.safe_load((folder / "recording.yaml").read_text("utf-8"))
        lines: dict[Stream, list[Item]] = {}
        for stream in ("stdout", "stderr"):
            text = (folder / stream).read_text("utf-8")
            lines[stream] = _parsed(source, text) if stream == source.stream else list(text.splitlines())
        return cls(source, lines, about["exit_code"], about["resumed"], about["turn_index"])

    @property
    def records(self) -> list[Item]:
        """The stream that holds the records."""
        return self.lines[self.source.stream]

    @property
    def session_id(self) -> str:
        """The id that was recorded."""
        records = (item for item in self.records if isinstance(item, dict))
        return next(str(found) for item in records if (found := item.get(self.source.session_field)))

    @property
    def other(self) -> Stream:
        """The stream that holds plain text."""
        return "stderr" if self.source.stream == "stdout" else "stdout"

    def written(self, stream: Stream) -> bytes:
        """Write a stream as the engine does."""
        text = "".join(f"{self.text_of(item)}\n" for item in self.lines[stream]).encode()
        for old, new in self.replaced:
            text = text.replace(old, new)
        return text

    def lost_replacements(self) -> list[bytes]:
        """List what is to be replaced but stands on neither stream."""
        texts = [self.text_of(item).encode() + b"\n" for items in self.lines.values() for item in items]
        return [old for old, _ in self.replaced if not any(old in text for text in texts)]

    def text_of(self, item: Item) -> str:
        """Write a record as the engine does; text stays as it is."""
        if isinstance(item, str):
            return item
        if self.source.style == "ndjson":
            return json.dumps(item, separators=(",", ":"), ensure_ascii=False)
        text = json.dumps(item, indent=2, ensure_ascii=False)
        return text if self.source.style == "json_document" else f"<{TAG}>\n{text}\n</{TAG}>"

    def filled(self, item: Item) -> Item:
        """Return a record or line with the session id in the place of `{id}`."""
        made: Item = json.loads(json.dumps(item).replace("{id}", self.session_id))
        return made

    def read(self, contract: EngineContract) -> TurnReading:
        """Read the turn by a contract."""
        return read_turn(
            contract, Mode.INTERACTIVE, self.written("stdout"), self.written("stderr"), self.exit_code,
            turn_index=self.turn_index, resumed=self.resumed, ended=self.ended,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Drift:
    """Changes to a recorded turn."""

    changes: Sequence[Change]
    turn: str = "main-first"

    def of(self, source: Source) -> DriftedTurn:
        """Return the changed turn."""
        turn = DriftedTurn.load(source, self.turn)
        for change in self.changes:
            change(turn)
        if turn.lost_replacements():
            raise ValueError(f"a change finds nothing to replace: {turn.lost_replacements()}")
        return turn


def drift(*changes: Change) -> Drift:
    """Change the first turn."""
    return Drift(changes)


def resumed(*changes: Change) -> Drift:
    """Change a resumed turn."""
    return Drift(changes, "main-again")


def insert(at: int | None, item: Item) -> Change:
    """Put a record or a line into the stream of records, at the end if `at` is None; `{id}` is the session id."""

    def change(turn: DriftedTurn) -> None:
        turn.records.insert(len(turn.records) if at is None else at, turn.filled(item))

    return change


def insert_other(at: int | None, item: Item) -> Change:
    """Put a record or a line into the stream of plain text."""

    def change(turn: DriftedTurn) -> None:
        lines = turn.lines[turn.other]
        lines.insert(len(lines) if at is None else at, turn.text_of(turn.filled(item)))

    return change


def delete(at: int) -> Change:
    """Leave a record out."""

    def change(turn: DriftedTurn) -> None:
        del turn.records[at]

    return change


def repeat(at: int) -> Change:
    """Print a record again at the end."""

    def change(turn: DriftedTurn) -> None:
        turn.records.append(turn.records[at])

    return change


def move(at: int) -> Change:
    """Print a record on the other stream."""

    def change(turn: DriftedTurn) -> None:
        turn.lines[turn.other].append(turn.text_of(turn.records.pop(at)))

    return change


def edit(at: int, values: dict[str, Any]) -> Change:
    """Set fields of a record by their dotted paths, or take them out if the value is `REMOVED`."""

    def change(turn: DriftedTurn) -> None:
        record = turn.records[at]
        for path, value in values.items():
            *parents, last = path.split(".")
            inner: Any = record
            for key in parents:
                inner = inner.setdefault(key, {})
            if value is REMOVED:
                del inner[last]
            else:
                inner[last] = value

    return change


def session_id(form: Callable[[str], object]) -> Change:
    """Write another value, made of the recorded one, wherever the session id stands."""

    def change(turn: DriftedTurn) -> None:
        new = json.dumps(form(turn.session_id), ensure_ascii=False)
        turn.replaced.append((f'"{turn.session_id}"'.encode(), new.encode()))

    return change


def text(old: str, new: str) -> Change:
    """Replace text in both streams as they are written."""
    return lambda turn: turn.replaced.append((old.encode(), new.encode()))


def swap() -> Change:
    """Print each stream on the other one."""

    def change(turn: DriftedTurn) -> None:
        written = {name: [turn.text_of(item) for item in items] for name, items in turn.lines.items()}
        turn.lines = {"stdout": list(written["stderr"]), "stderr": list(written["stdout"])}

    return change


def silence(*streams: Stream) -> Change:
    """Print nothing on these streams."""
    return lambda turn: turn.lines.update({stream: [] for stream in streams})


def end(exit_code: int | None, ended: Ended = Ended.EXIT) -> Change:
    """End the process otherwise."""

    def change(turn: DriftedTurn) -> None:
        turn.exit_code, turn.ended = exit_code, ended

    return change


def _parsed(source: Source, text_: str) -> list[Item]:
    if source.style == "json_document":
        return [json.loads(text_)]
    if source.style == "ndjson":
        return [json.loads(line) for line in text_.splitlines()]
    before, _, block = text_.partition(f"<{TAG}>\n")
    return [*before.splitlines(), json.loads(block.partition(f"</{TAG}>")[0])]
