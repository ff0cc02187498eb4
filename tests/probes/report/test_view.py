"""Words that every format uses."""

import pytest

from turngate_probes.report.view import JudgedCase, duration


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0.44, "0.4 s"),
        (9.96, "10 s"),
        (12.2, "12 s"),
        (59.7, "1 min 0 s"),
        (183, "3 min 3 s"),
        (7500, "2 h 5 min"),
    ],
)
def test_a_time_is_written_as_people_say_it(seconds: float, text: str) -> None:
    """Durations are written in seconds, minutes, or hours."""
    assert duration(seconds) == text


def test_a_remark_names_its_subject_once() -> None:
    """What the remark is about may begin with the subject, or be missing."""
    titles = [JudgedCase("codex@1.0.0", about, "failed", "x").title for about in ("a.b", "codex@1.0.0: a.b", "")]
    assert titles == ["codex@1.0.0 a.b", "codex@1.0.0 a.b", "codex@1.0.0"]
