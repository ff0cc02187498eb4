"""Changes recordings as listed in `drifted.yaml`, in memory only, so that none is taken for a real recording."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml

from turngate.contract.engine_contract import EngineContract
from turngate.contract.launch import Stream
from turngate.model import Ended, Mode
from turngate.turn.read import TurnReading, read_turn

HERE = Path(__file__).parent
FIXTURES = HERE.parents[1] / "fixtures"
DATA: dict[str, Any] = yaml.safe_load((HERE / "drifted.yaml").read_text("utf-8"))
SHARED = DATA.pop("every engine")
TAG = "Execution Info"
Item = dict[str, Any] | str
Changes = Sequence[Mapping[str, Sequence[Any]]]


@dataclass(frozen=True, slots=True)
class Source:
    """The recordings of an engine that are changed, and their format; `drifts` apply only to this engine."""

    engine: str
    release: str
    stream: Stream
    style: Literal["ndjson", "json_document", "tagged_block"]
    session_field: str
    drifts: Mapping[str, Any] = field(repr=False)


SOURCES = tuple(Source(engine, **about) for engine, about in DATA.items())


def drifted(source: Source) -> "dict[str, DriftedTurn]":
    """Return the turns of a source by name: as recorded, and after each drift."""
    drifts = {"as recorded": [], "as recorded, resumed": {"main-again": []}, **SHARED, **source.drifts}
    return {name: _made(source, drift) for name, drift in drifts.items()}


def _made(source: Source, drift: Changes | Mapping[str, Changes]) -> "DriftedTurn":
    named: Mapping[str, Changes] = drift if isinstance(drift, Mapping) else {"main-first": drift}
    ((recording, changes),) = named.items()
    turn = DriftedTurn.load(source, recording)
    for change in changes:
        ((name, given),) = change.items()
        getattr(turn, name)(*turn.filled(given))
    turn.check_replacements()
    return turn


@dataclass(slots=True)
class DriftedTurn:
    """A turn to change: the records and lines of both streams, and how its process ended."""

    source: Source
    recorded_id: str
    lines: dict[Stream, list[Item]]
    mode: Mode
    exit_code: int | None
    resumed: str | None
    turn_index: int
    ended: Ended = Ended.EXIT
    replaced: list[tuple[bytes, bytes]] = field(default_factory=list)
    cut_bytes: int = 0

    @classmethod
    def load(cls, source: Source, name: str) -> "DriftedTurn":
        """Parse a recording into records and lines."""
        folder = FIXTURES / source.engine / source.release / name
        about = yaml.safe_load((folder / "recording.yaml").read_text("utf-8"))
        lines: dict[Stream, list[Item]] = {}
        for stream in ("stdout", "stderr"):
            text = (folder / stream).read_text("utf-8")
            lines[stream] = _parsed(source, text) if stream == source.stream else [*_lines(text)]
        records = (item for item in lines[source.stream] if isinstance(item, dict))
        recorded = next(str(record[source.session_field]) for record in records if source.session_field in record)
        return cls(
            source, recorded, lines, Mode(about["mode"]), about["exit_code"], about["resumed"], about["turn_index"]
        )

    def read(self, contract: EngineContract) -> TurnReading:
        """Read the turn with a contract."""
        return read_turn(
            contract,
            self.mode,
            self.written("stdout"),
            self.written("stderr"),
            self.exit_code,
            turn_index=self.turn_index,
            resumed=self.resumed,
            ended=self.ended,
        )

    def paths(self) -> list[str]:
        """Return the dotted paths of all values in the records."""
        return sorted({path for item in self._records if isinstance(item, dict) for path in _paths(item, "")})

    def written(self, stream: Stream) -> bytes:
        """Return the bytes of a stream."""
        text = "".join(f"{self._text_of(item)}\n" for item in self.lines[stream]).encode()
        for old, new in self.replaced:
            text = text.replace(old, new)
        return text[: len(text) - self.cut_bytes] if stream == self.source.stream else text

    def filled(self, given: Any) -> Any:
        """Return a change's arguments with their slots filled."""
        slots = {
            "{id}": self.recorded_id,
            "{other}": self.recorded_id.replace("0", "9"),
            "{capitals}": self.recorded_id.replace("0", "A"),
            "{long}": self.recorded_id * 60,
        }
        text = json.dumps(given)
        for slot, value in slots.items():
            text = text.replace(slot, value)
        return json.loads(text)

    def insert(self, at: int | None, item: Item) -> None:
        """Insert a record or a line into the stream of records."""
        self._records.insert(len(self._records) if at is None else at, item)

    def insert_other(self, at: int | None, item: Item) -> None:
        """Insert a record or a line into the other stream."""
        lines = self.lines[self._other]
        lines.insert(len(lines) if at is None else at, self._text_of(item))

    def delete(self, at: int) -> None:
        """Remove a record."""
        del self._records[at]

    def repeat(self, at: int) -> None:
        """Repeat a record at the end."""
        self._records.append(self._records[at])

    def move(self, at: int) -> None:
        """Move a record to the other stream."""
        self.insert_other(None, self._records.pop(at))

    def edit(self, at: int, values: dict[str, Any]) -> None:
        """Set fields of a record by their dotted paths; None removes a field."""
        for path, value in values.items():
            *parents, last = path.split(".")
            inner: Any = self._records[at]
            for key in parents:
                inner = inner.setdefault(key, {})
            inner[last] = value
            if value is None:
                del inner[last]

    def id(self, value: object) -> None:
        """Replace the session id everywhere."""
        self.text(json.dumps(self.recorded_id), json.dumps(value, ensure_ascii=False))

    def text(self, old: str, new: str) -> None:
        """Replace text on both streams."""
        self.replaced.append((old.encode(), new.encode()))

    def cut(self, count: int) -> None:
        """Cut the last bytes of the stream of records."""
        self.cut_bytes = count

    def swap(self) -> None:
        """Swap stdout and stderr."""
        out, err = ([self._text_of(item) for item in self.lines[stream]] for stream in ("stdout", "stderr"))
        self.lines = {"stdout": [*err], "stderr": [*out]}

    def silence(self, *streams: Stream) -> None:
        """Empty these streams."""
        self.lines |= {stream: [] for stream in streams}

    def end(self, exit_code: int | None, ended: str = Ended.EXIT) -> None:
        """Set how the process ended."""
        self.exit_code, self.ended = exit_code, Ended(ended)

    def check_replacements(self) -> None:
        """Raise ValueError if a text to replace does not occur."""
        text = "".join(f"{self._text_of(item)}\n" for items in self.lines.values() for item in items).encode()
        if missing := [old for old, _ in self.replaced if old not in text]:
            raise ValueError(f"nothing to replace in {self.source}: {missing}")

    @property
    def _records(self) -> list[Item]:
        return self.lines[self.source.stream]

    @property
    def _other(self) -> Stream:
        return "stderr" if self.source.stream == "stdout" else "stdout"

    def _text_of(self, item: Item) -> str:
        if isinstance(item, str):
            return item
        if self.source.style == "ndjson":
            return json.dumps(item, separators=(",", ":"), ensure_ascii=False)
        text = json.dumps(item, indent=2, ensure_ascii=False)
        return text if self.source.style == "json_document" else f"<{TAG}>\n{text}\n</{TAG}>"


def _parsed(source: Source, text: str) -> list[Item]:
    if source.style == "json_document":
        return [json.loads(text)]
    if source.style == "ndjson":
        return [json.loads(line) for line in _lines(text)]
    before, _, block = text.partition(f"<{TAG}>\n")
    return [*_lines(before), json.loads(block.partition(f"</{TAG}>")[0])]


def _paths(value: object, at: str) -> set[str]:
    if not isinstance(value, dict):
        return {at}
    return {path for key, inner in value.items() for path in _paths(inner, f"{at}.{key}".lstrip("."))}


def _lines(text: str) -> list[str]:
    return text.removesuffix("\n").split("\n") if text else []
