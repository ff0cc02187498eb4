"""The drift corpus: one YAML file per drift, which says what changes, why it may, and which clause must notice.

`recordings: codex` means the newest recordings of that engine. `executable: codex@0.169.0` is a fake that behaves as
that release, `simulated: gemini@0.61.0` the simulation that its contract describes: both really run the `cases`.
`fault` is what a simulated sticky process does wrong, by a name of `turngate simulate --fault`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from turngate.contract import load

CORPUS = Path(__file__).parent / "corpus"
Change = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One drift; `seen_in` names the issue or commit of a real one; one base of the three is set."""

    name: str
    what: str
    why: str
    caught_by: str
    changes: tuple[Change, ...] = ()
    fault: str | None = None
    seen_in: str | None = None
    recordings: str | None = None
    executable: str | None = None
    simulated: str | None = None
    cases: tuple[str, ...] = field(default=())


@cache
def corpus() -> tuple[Drift, ...]:
    """Load every drift, in the order of their names."""
    return tuple(_read(path) for path in sorted(CORPUS.glob("*.yaml")))


def _read(path: Path) -> Drift:
    fields = load.parse(path.read_text("utf-8"), path.name).data
    bases = [name for name in ("recordings", "executable", "simulated") if name in fields]
    if len(bases) != 1 or ("recordings" in fields) == ("cases" in fields):
        raise ValueError(f"{path.name}: needs `recordings`, or else `cases` and one of `executable` and `simulated`")
    if ("fault" in fields) == ("changes" in fields):
        raise ValueError(f"{path.name}: needs `changes`, or else a `fault`")
    if strange := set(fields) - set(Drift.__slots__):
        raise ValueError(f"{path.name}: unknown {', '.join(sorted(strange))}")
    return msgspec.convert({"name": path.stem, **fields}, Drift)
