"""The parts of the text report about new problems."""

from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate.history_text import named
from turngate_probes.journal.events import Event
from turngate_probes.report.lines import Detail, Line
from turngate_probes.report.release_view import view
from turngate_probes.report.text import MOST_EVIDENCE, failure_evidence, problem_lines


def plain(lines: list[Line]) -> list[str]:
    """Return the lines at the two outer levels of indentation."""
    return [line.plain for depth, line in lines if depth < 2 and line.plain]


def refused(number: int) -> list[Event]:
    """Return a release that refuses to resume."""
    failure = j.clause("resume.accepted", "fail", detail="refused")
    return samples.whole(failure, verdict="broken", release=f"codex@0.{number}.0")


def test_a_note_alone_is_no_problem() -> None:
    """A compatible release with only notes and known caveats has no problem block."""
    caveat = j.clause("stdin.open", "deviates", detail="hangs")
    shown = view(samples.of(samples.whole(caveat, note="installed on request")))
    assert list(problem_lines(shown, Detail.NORMAL)) == []
    assert list(failure_evidence(shown, Detail.NORMAL)) == []
    assert "known caveat stdin.open" in "\n".join(plain(list(problem_lines(shown, Detail.VERBOSE))))


def test_releases_of_which_the_same_is_said_share_a_block() -> None:
    """Releases with the same problems share one block, which names a few of them and counts the rest."""
    shown = view(samples.of(*map(refused, range(7)), samples.whole(release="codex@0.9.0")))
    assert plain(list(problem_lines(shown, Detail.NORMAL))) == [
        "codex 0.0.0, 0.1.0, 0.2.0, 0.3.0 and 3 more",
        "fail resume.accepted: The engine accepts a resume with the caller's options and runs a turn.",
    ]
    assert named(["a", "b"]) == "a, b"


def test_what_is_new_comes_before_what_is_not_run() -> None:
    """New problems come before clauses that were not run, the severest first."""
    changed = [
        j.clause("version.readable", "not_run", detail="no recording", reason="no_recording"),
        j.clause("help.surface", "unsupported", detail="none"),
        j.clause("stdin.open", "fail", detail="hangs"),
        j.clause("resume.accepted", "fail", detail="refused"),
    ]
    shown = view(samples.of(samples.whole(*changed, verdict="broken")))
    words = [line.partition(".")[0] for line in plain(list(problem_lines(shown, Detail.NORMAL)))[1:]]
    assert words == ["fail resume", "degraded stdin", "not run version", "unsupported help"]


def test_the_evidence_of_many_failures_is_bounded() -> None:
    """Evidence is limited; the block says how many failures are left to the reports."""
    shown = view(samples.of(*map(refused, range(MOST_EVIDENCE + 3))))
    lines = plain(list(failure_evidence(shown, Detail.NORMAL)))
    assert lines[:2] == ["Evidence", "fail codex@0.0.0 resume.accepted"]
    assert lines[-1] == "and 3 more in the journal and the reports"
