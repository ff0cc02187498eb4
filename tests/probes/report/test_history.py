"""The report on an engine's history."""

import pytest

from tests.contracts.test_history import FRESH, PASS, known, release
from turngate import NotFoundError
from turngate.contract.verdict import Verdict
from turngate_probes.report.history import history_lines, history_report

BEFORE = {"option/codex exec --help": {"--json": ""}}
AFTER = {"option/codex exec --help": {"--json": "", "--trust": ""}}
CODEX = known(
    release("0.1.0", Verdict.BROKEN, why="handle.present: no id", clauses={"resume.dead-handle": FRESH}),
    release("0.2.0", facts=BEFORE, clauses={"resume.dead-handle": FRESH}),
    release("0.3.0", facts=BEFORE, clauses={"resume.dead-handle": FRESH}),
    release("0.4.0", Verdict.UNANSWERED, why="no build"),
    release("0.4.1", Verdict.UNANSWERED, why="no build"),
    release("0.5.0", facts=AFTER, clauses={"resume.dead-handle": PASS}),
    release("0.6.0", facts=AFTER, clauses={"resume.dead-handle": FRESH}),
    published=("0.5.5",),
)


def test_releases_are_listed_newest_first_with_what_they_changed() -> None:
    """Releases that changed nothing share a line, and the end says what to do now."""
    lines = [f"{'  ' * depth}{line}" for depth, line in history_lines(history_report(CODEX))]
    assert lines[:3] == [
        "Codex CLI: 5 tested releases, newest first (Linux)",
        "not tested: 0.5.5",
        "0.4.0, 0.4.1 could not be tested: no build",
    ]
    heads = [line for line in lines if line.startswith("0.")][1:]
    assert [head.partition(":")[0] for head in heads] == ["0.6.0", "0.5.0", "0.2.0 to 0.3.0", "0.1.0"]
    assert "known caveats: resume.dead-handle (fresh-session)" in heads[0]
    assert lines[lines.index(heads[1]) + 1 :][:2] == [
        "  `resume.dead-handle` passes; before, it had a known caveat (fresh-session).",
        "  Option `--trust` is new (`codex exec`).",
    ]
    must = lines.index("with codex 0.6.0, an orchestrator must:")
    assert "check that the session's file exists" in lines[must + 1]
    assert lines[-1].startswith(
        "codex@0.6.0 is compatible only with turngate's guards, which `turngate explain codex@0.6"
    )


def test_a_release_tested_for_selected_clauses_shows_what_it_changed() -> None:
    """It has a row without a verdict; one that changed nothing has none."""
    ours = known(*CODEX.releases, release("0.7.0", None, facts=BEFORE), release("0.8.0", None, facts=BEFORE))
    lines = [str(line) for _, line in history_lines(history_report(ours, "0.6.0"))]
    assert lines[1:] == [
        "tested for selected clauses only: 0.7.0, 0.8.0",
        "",
        "0.7.0: selected clauses only",
        "Option `--trust` is gone (`codex exec`).",
    ]


def test_a_change_since_an_earlier_release_says_what_it_is_compared_with() -> None:
    """A release in between was tested without the help page, so the new option may be its."""
    ours = known(*CODEX.releases[:3], release("0.3.1"), CODEX.releases[5])
    lines = [str(line) for _, line in history_lines(history_report(ours))]
    said = "Compared with 0.3.0, because the releases in between were not tested for this:"
    assert lines.index(said) < lines.index("Option `--trust` is new (`codex exec`).")
    assert said not in [str(line) for _, line in history_lines(history_report(CODEX))]
    part = [str(line) for _, line in history_lines(history_report(ours, "0.3.1"))]
    at, whole = part.index(said), lines.index(said)
    assert part[at : at + 3] == lines[whole : whole + 3]


def test_a_newer_release_than_all_known_ones_is_answered_up_to_the_newest() -> None:
    """The answer says where it ends, and what tests the release."""
    lines = [str(line) for _, line in history_lines(history_report(CODEX, "0.5.0", "0.9.0"))]
    assert lines[1] == "nothing is known of releases after 0.6.0; `turngate probe codex@0.9.0` tests one"
    assert any(line.startswith("0.6.0") for line in lines)
    for typo in ("0.5.1", "9"):
        with pytest.raises(NotFoundError, match=typo):
            history_report(CODEX, until=typo)
