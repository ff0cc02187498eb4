import pytest
from msgspec import structs

from tests.probes.report import journals as j
from tests.probes.report import samples
from turngate_probes.report.release_view import view


@pytest.mark.parametrize(
    "releases, headline",
    [
        ((), "Nothing was probed"),
        (({"verdict": "degraded"},), "codex@0.1.0 is degraded (clause set 2026-12)"),
        (({"source": "recordings"},), f"codex@0.1.0 is compatible (clause set {j.RECORDED_SET}), from recordings"),
        (({}, {}), "Both releases are compatible"),
        (({}, {}, {}), "All 3 releases are compatible"),
        (({"verdict": "broken"}, {}), "1 of 2 releases is broken"),
        (({"verdict": "degraded"}, {}, {"verdict": "degraded"}), "2 of 3 releases are degraded"),
    ],
)
def test_the_headline_is_about_the_worst(releases: tuple[dict[str, str], ...], headline: str) -> None:
    """The headline names a single worst release, and counts several."""
    listed = [samples.whole(release=f"codex@0.{n}.0", **fields) for n, fields in enumerate(releases, 1)]
    assert view(samples.of(*listed)).headline == headline


@pytest.mark.parametrize(
    "fields, meaning",
    [
        ({}, "codex@0.169.0 is broken"),
        (
            {"fail_on": "degraded"},
            "codex@0.169.0 is broken; gemini@0.61.0 has a declared deviation that no longer occurs",
        ),
        (
            {"releases": (structs.replace(samples.mixed().releases[0], verdict=None),)},
            "codex@0.169.0 fails a selected clause",
        ),
        ({"exit_code": 0}, "no release is broken or unanswered"),
        ({"exit_code": 0, "fail_on": "degraded"}, "no release is broken, degraded or unanswered"),
        ({"exit_code": 2}, "opencode@1.0.0 is unanswered"),
        ({"exit_code": 130, "interrupted": True}, "interrupted"),
        ({"exit_code": 2, "releases": ()}, "nothing was probed"),
    ],
)
def test_the_exit_code_has_a_meaning(fields: dict[str, object], meaning: str) -> None:
    """The meaning of an exit code depends on the command."""
    assert view(structs.replace(samples.mixed(), **fields)).meaning == meaning
