"""What a baseline excuses."""

from pathlib import Path

from tests.tables import each
from turngate.contract.clauses import Result
from turngate_probes.gate.decision import expected_failures, state, within

GOOD = """
- {engine: codex, clause: resume.dead-handle, since: 0.170.0, until: 0.172.0, reason: mended upstream}
"""


def test_entries_concern_releases_in_their_range(tmp_path: Path) -> None:
    """An entry applies to its engine from `since` up to, but not including, `until`, and knows its line."""
    path = tmp_path / "expected.yaml"
    path.write_text(GOOD)
    (entry,) = expected_failures(path, "codex")
    assert entry.at == f"{path}:2"
    covered = [v for v in ("0.169.0", "0.170.0", "0.171.9", "0.172.0") if within([entry], v)]
    assert covered == ["0.170.0", "0.171.9"]
    assert expected_failures(path, "gemini") == ()


@each(
    "result, breaks, said",
    [
        (Result.FAIL, False, "excuses"),
        (Result.PASS, False, "passes"),
        (Result.DEVIATES, False, "passes"),
        (Result.PASS, True, "excuses"),
        (Result.NOT_RUN, False, "not_asked"),
    ],
)
def test_an_entry_excuses_until_its_clause_passes(result: Result, said: str, *, breaks: bool) -> None:
    """An entry is obsolete once its clause passes, unless what it is about still breaks."""
    assert state(result, named=breaks) == said
