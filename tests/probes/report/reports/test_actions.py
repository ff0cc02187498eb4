from tests.probes.report import samples
from turngate_probes.report.reports import Action, known_caveats


def test_the_same_caveat_of_several_releases_is_one_action() -> None:
    """Equal caveats become one action that names all releases; a different text is another action."""
    releases = samples.mixed().releases
    listed = known_caveats(releases)
    named = {(clause.id, clause.action) for release in releases for clause in release.clauses if clause.action}
    assert {(action.about, action.text) for action in listed} == named
    assert not any(action.new for action in listed)


def test_the_title_says_what_is_new() -> None:
    """The title says of a caveat whether it is known or new; a change is always new, so its title doesn't."""
    titles = [Action("caveat", "stdin.open", "x", ("codex",), new=new).title for new in (False, True)]
    assert titles == ["known caveat: stdin.open", "new caveat: stdin.open"]
    assert Action("change", "launch.auto", "x", ("codex",), new=True).title == "change: launch.auto"
