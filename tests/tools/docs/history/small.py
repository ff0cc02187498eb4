"""A small history for the tests of pages and feeds."""

from turngate.contract.clauses import Result
from turngate.contract.verdict import Verdict
from turngate.history import History, KnownRelease, KnownResult

PASSES, HANGS = KnownResult(Result.PASS), KnownResult(Result.DEVIATES, ("hang",))
OUTPUT = {"record/first turn": {"done": "", "done: a": "string"}}
MORE = {"record/first turn": {"done": "", "done: a": "string", "done: b": "<x>"}}

SMALL = History(
    engine="codex",
    machine="Linux x86_64",
    published={
        "0.1.0": None,
        "0.2.0": "2026-01-02",
        "0.3.0": "2026-01-03",
        "0.4.0": "2026-01-04",
        "0.5.0": "2026-02-05",
        "0.6.0": "2026-02-06",
    },
    releases=(
        KnownRelease(version="0.2.0", verdict=Verdict.BROKEN, why="x", facts=OUTPUT, clauses={"stdin.open": PASSES}),
        KnownRelease(version="0.4.0", verdict=Verdict.DEGRADED, facts=OUTPUT, clauses={"stdin.open": HANGS}),
        KnownRelease(
            version="0.5.0",
            verdict=Verdict.DEGRADED,
            facts=MORE,
            clauses={"stdin.open": HANGS},
            measured="2026-03-01",
        ),
    ),
)
