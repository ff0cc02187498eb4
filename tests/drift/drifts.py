"""The drift corpus: one YAML file per drift, stating what changes, why that may happen, and which clause must fail.

`recordings: codex` means the newest recordings of that engine. `executable: codex@0.169.0` is a fake engine that
behaves like that release, and `simulated: gemini@0.61.0` is the simulation of that release. Both run the `cases`.
`fault` is what a simulated engine does wrong, as `turngate simulate --fault` takes it; `changes` are for what is no
fault of that list. `alone` says that no other clause fails.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from turngate.contract import load
from turngate.decoding import convert
from turngate_probes.server_level.cases import STICKY_CASES

CORPUS = Path(__file__).parent / "corpus"
Change = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """One drift, with one of the three bases; `seen_in` names the issue or commit where it really happened."""

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
    alone: bool = False

    @property
    def sticky(self) -> bool:
        """Whether its cases run through the reference server, in a sticky process."""
        return any(case.name in self.cases for case in STICKY_CASES)


@cache
def corpus() -> tuple[Drift, ...]:
    """Return every drift, sorted by name."""
    return tuple(_read(path) for path in sorted(CORPUS.glob("*.yaml")))


def _read(path: Path) -> Drift:
    fields = load.parse(path.read_text("utf-8"), path.name, ours=True).data
    bases = [name for name in ("recordings", "executable", "simulated") if name in fields]
    if len(bases) != 1 or ("recordings" in fields) == ("cases" in fields):
        raise ValueError(f"{path.name}: needs `recordings`, or else `cases` and one of `executable` and `simulated`")
    if ("fault" in fields) == ("changes" in fields):
        raise ValueError(f"{path.name}: needs `changes`, or else a `fault`")
    if strange := set(fields) - set(Drift.__slots__):
        raise ValueError(f"{path.name}: unknown {', '.join(sorted(strange))}")
    return convert({"name": path.stem, **fields}, Drift)
