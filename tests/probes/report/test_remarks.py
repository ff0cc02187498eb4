from tests.probes.report import samples
from turngate_probes.report.release_view import view


def test_remarks_name_their_release_and_the_severest_come_first() -> None:
    """Remarks name their release, the severest first; a release that could not be probed is an error."""
    shown = view(samples.mixed()).remarks
    assert [(remark.level, remark.title) for remark in shown] == [
        ("error", "opencode@1.0.0"),
        ("error", "codex@0.169.0 resume.accepted"),
        ("warning", "codex@0.169.0 help.surface"),
        ("note", "gemini@0.61.0 prompt.large"),
    ]
