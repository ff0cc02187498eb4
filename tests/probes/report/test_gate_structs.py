from tests.probes.gate import views


def test_the_newer_release_is_judged() -> None:
    """The older one is there to be compared with."""
    assert views.red_by_a_tool().judged.release == views.NEW


def test_an_excuse_says_why_the_baseline_expects_it() -> None:
    """With what it excuses, in one sentence."""
    (excuse,) = views.green_by_baseline().ruling.excused
    assert excuse.text == f"excused by the baseline (mended upstream): {views.DEAD} fails: exit code 0"
