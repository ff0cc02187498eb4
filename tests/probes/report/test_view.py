"""What is said of a clause or a scenario."""

from turngate_probes.report.view import JudgedCase


def test_a_remark_names_its_subject_once() -> None:
    """What the remark is about may begin with the subject, or be missing."""
    titles = [JudgedCase("codex@1.0.0", about, "failed", "x").title for about in ("a.b", "codex@1.0.0: a.b", "")]
    assert titles == ["codex@1.0.0 a.b", "codex@1.0.0 a.b", "codex@1.0.0"]
