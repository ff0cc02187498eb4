from tests.probes.gate import views


def test_the_newer_release_is_judged() -> None:
    """The gate's verdict is about the newer release; the older one is only the comparison."""
    assert views.red_by_a_tool().newer.release == views.NEW


def test_an_excuse_says_why_the_baseline_expects_it() -> None:
    """An excuse says in one sentence what the baseline expects and why."""
    (excuse,) = views.green_by_baseline().decision.excused
    assert excuse.text == f"excused by the baseline (mended upstream): {views.DEAD} fails: exit code 0"
