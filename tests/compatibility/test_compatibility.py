"""The histories agree with the contracts, and the tables with the histories."""

from collections.abc import Mapping
from copy import deepcopy

import pytest
from msgspec.structs import replace

from tests.tools.compatibility.boundaries import boundaries, disagreeing
from tests.tools.compatibility.render import (
    PAGE,
    README,
    RECIPES,
    histories,
    in_readme,
    page,
    stretches,
    summary,
    unknown_clauses,
)
from tests.tools.history.with_release import with_release
from turngate import engine_names, history
from turngate.contract import load
from turngate.contract.clauses import FIRST_SET, Result
from turngate.contract.verdict import Verdict
from turngate.history import History, KnownRelease, KnownResult
from turngate_probes.report.recipe import recipe

PUBLISHED = ("0.9.0", "0.117.0", "0.118.0")
every_history = pytest.mark.parametrize("engine", history.engines())


def release(
    version: str,
    verdict: Verdict | None = Verdict.DEGRADED,
    clauses: Mapping[str, KnownResult] | None = None,
    why: str = "",
) -> KnownRelease:
    """Return a release of codex."""
    return KnownRelease(version=version, verdict=verdict, profile="resumable", why=why, clauses=clauses or {})


def of_codex(*releases: KnownRelease) -> History:
    """Return a history of codex."""
    known = History(engine="codex", machine="Linux x86_64", published=dict.fromkeys(PUBLISHED), releases=())
    for each in releases:
        known = with_release(known, each)
    return known


PASSES, FAILS = KnownResult(Result.PASS), KnownResult(Result.FAIL, detail="what was seen")
FRESH = KnownResult(Result.DEVIATES, ("fresh-session",))


def test_readme_holds_the_table_that_the_histories_give() -> None:
    """The table in the README is the generated one."""
    assert in_readme(README.read_text("utf-8"), histories()) == README.read_text("utf-8"), "make compatibility"


def test_each_engine_has_a_page_with_its_recipe() -> None:
    """The pages are what `turngate explain ENGINE` prints."""
    pages = {page.stem: page.read_text("utf-8") for page in RECIPES.iterdir()}
    assert pages == {engine: recipe(engine).markdown for engine in engine_names()}, "make compatibility"


@pytest.mark.long
@pytest.mark.nightly
def test_page_is_the_one_that_the_histories_give() -> None:
    """The compatibility page is the generated one."""
    assert page(histories()) == PAGE.read_text("utf-8"), "make compatibility"


@pytest.mark.long
@pytest.mark.nightly
@every_history
def test_tested_releases_show_the_deviations_that_the_contract_declares(engine: str) -> None:
    """Tested releases show exactly the declared deviations, except for hangs, which depend on timing.

    Tests by the first set of clauses called no tool that the user's settings add.
    """
    for known in history.load(engine).releases:
        unseen, undeclared = disagreeing(engine, known)
        excused = ("hang", "own-tool") if known.clause_set == FIRST_SET else ("hang",)
        assert all(deviation.partition(": ")[2].startswith(excused) for deviation in unseen), known.version
        assert undeclared == [], known.version


@pytest.mark.long
@pytest.mark.nightly
@every_history
def test_deviations_begin_and_end_where_both_neighbours_were_tested(engine: str) -> None:
    """Where a deviation begins or ends between tested releases, both neighbours were, or its note says otherwise."""
    edges = [edge for edge in boundaries(history.load(engine)) if ": " in edge.claim and not edge.basis.unverified]
    between = [
        edge for edge in edges if edge.before and edge.after and not edge.claim.startswith(("options", "auto_flags"))
    ]
    assert [edge for edge in between if not edge.exact and "not asked" not in edge.basis.note] == []


def test_the_table_has_each_engine_with_a_contract() -> None:
    """An engine without tested releases says so, and one that can't be installed is judged by its recordings."""
    table = summary({"codex": of_codex(release("0.9.0"), release("0.117.0", None), release("0.118.0", Verdict.BROKEN))})
    for engine in load.engine_names():
        assert f"| {load.contract(engine).at().title} |" in table
    assert "| Codex CLI | 0 of 3: not measured yet |" in summary({"codex": of_codex()})
    assert "| Codex CLI | 0: not measured yet | 0 | 0 | 0 | 0 | - | - | - |" in summary({})
    assert "| 1 | 0 | 0 | 0 | 2026-11 | 1.44.0 | 1.44.0: compatible (2026-11), from recordings |" in table
    # its contract declares a deviation from a newer clause, which the recordings don't show
    assert "| 1 | 0 | 0 | 0 | 2026-11 | 0.5.19 | 0.5.19: compatible (2026-11), from recordings |" in table


def test_the_table_counts_verdicts_and_partly_tested_releases() -> None:
    """A release with selected clauses has no verdict; usable releases begin after the last broken one."""
    known = of_codex(
        release("0.9.0", Verdict.BROKEN, {"handle.present": FAILS}),
        release("0.117.0", Verdict.DEGRADED, {"handle.present": PASSES}),
        release("0.118.0", None, {"help.surface": PASSES}),
    )
    row = (
        "| Codex CLI | 3 of 3, 1 on single clauses | 0 | 1 | 1 | 0 | 2026-11 | 0.117.0 | 0.117.0: degraded (2026-11) |"
    )
    assert row in summary({"codex": known})


def test_verdicts_by_different_clause_sets_stay_apart() -> None:
    """A table says how many verdicts were given by each set, and neighbours with different ones are two rows."""
    newer = replace(release("0.117.0"), clause_set="2026-12")
    known = of_codex(release("0.9.0"), newer, release("0.118.0"))
    assert "| 0 | 3 | 0 | 0 | 2026-11: 2, 2026-12: 1 | 0.9.0 | 0.118.0: degraded (2026-11) |" in summary(
        {"codex": known}
    )
    assert [alike[0].clause_set for alike in stretches(known)] == ["2026-11", "2026-12", "2026-11"]


def test_neighbours_with_equal_results_are_one_row() -> None:
    """Releases with equal results share a row, even if one between them was only partly tested."""
    known = of_codex(release("0.9.0"), release("0.117.0", None, {"help.surface": FAILS}), release("0.118.0"))
    assert [[each.version for each in alike] for alike in stretches(known)] == [["0.9.0", "0.118.0"]]
    other = with_release(known, release("0.118.0", Verdict.BROKEN))
    assert len(stretches(other)) == 2


def test_a_row_names_what_failed_and_for_a_broken_release_what_decided() -> None:
    """A known caveat is in the table of deviations instead."""
    usable = of_codex(
        release("0.9.0", Verdict.DEGRADED, {"stdin.open": FAILS, "help.surface": PASSES, "resume.dead-handle": FRESH})
    )
    assert "| `stdin.open`: what was seen |" in page({"codex": usable})
    why = "handle.present: no id"
    broken = of_codex(release("0.9.0", Verdict.BROKEN, {"handle.present": FAILS, "stdin.open": FAILS}, why))
    assert "| `handle.present` |" in page({"codex": broken})


def test_clauses_that_a_release_was_never_tested_for_are_listed() -> None:
    """What usable releases lack is listed with those that have it; broken ones can't have all."""
    known = of_codex(
        release("0.9.0", Verdict.BROKEN),
        release("0.117.0", Verdict.DEGRADED, {"stdin.open": PASSES}),
        release("0.118.0", Verdict.DEGRADED, {"stdin.open": PASSES}),
    )
    lacking = {
        clause: [each.version for each in having] for clauses, having in unknown_clauses(known) for clause in clauses
    }
    assert lacking["handle.unique"] == []
    assert "stdin.open" not in lacking
    newer = with_release(known, release("0.118.0", Verdict.DEGRADED, {"stdin.open": PASSES, "handle.unique": PASSES}))
    assert (["handle.unique"], [newer.find("0.118.0")]) in unknown_clauses(newer)
    text = page({"codex": newer})
    assert "- `handle.unique`: 0.118.0, 1 of 2\n" in text
    assert "\n- all that 2026-12 adds, all that 2027-01 adds, `version.readable`, " in text


@pytest.mark.parametrize("verdict", [None, Verdict.DEGRADED])
@pytest.mark.parametrize(
    "asked, claim, neighbour",
    [
        ({"help.surface": PASSES}, "help", "0.9.0"),
        ({"resume.accepted": PASSES}, "help", None),
        ({"help.surface": PASSES}, "resume.dead-handle: fresh-session", None),
        ({"resume.dead-handle": FRESH}, "resume.dead-handle: fresh-session", "0.9.0"),
    ],
)
def test_a_release_shows_nothing_of_claims_whose_clauses_it_was_not_tested_for(
    verdict: Verdict | None,
    asked: dict[str, KnownResult],
    claim: str,
    neighbour: str | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It counts for claims whose evidence is a tested clause, whether the others of its time were tested or not."""
    contract = deepcopy(load.contract("codex"))
    contract.document.data["help"]["until"] = "0.117.0"
    monkeypatch.setattr(load, "contract", lambda _: contract)
    known = of_codex(
        release("0.9.0", verdict, asked), release("0.117.0", Verdict.DEGRADED, {"resume.dead-handle": PASSES})
    )
    known_from = {edge.claim: edge.before for edge in boundaries(known) if edge.version == "0.117.0"}
    assert known_from[claim] == neighbour


@pytest.mark.parametrize(
    "before, after, exact",
    [(FRESH, PASSES, True), (FRESH, FRESH, False), (PASSES, PASSES, False), (FRESH, None, False)],
)
def test_a_deviation_ends_where_one_neighbour_shows_it_and_the_other_does_not(
    before: KnownResult, after: KnownResult | None, *, exact: bool
) -> None:
    """The end of a deviation is exact if the tests of both neighbours show it."""
    newer = release("0.117.0", Verdict.DEGRADED, {"resume.dead-handle": after}) if after else release("0.117.0")
    known = of_codex(release("0.9.0", Verdict.DEGRADED, {"resume.dead-handle": before}), newer)
    edges = {(edge.claim, edge.edge): edge for edge in boundaries(known)}
    assert edges["resume.dead-handle: fresh-session", "until"].exact is exact


def test_releases_that_can_not_be_tested_are_below_the_table() -> None:
    """They don't part a row, and those with the same reason are listed together."""
    lost = [release(version, Verdict.UNANSWERED, why=f"codex {version} has no build (x)") for version in PUBLISHED[:2]]
    known = of_codex(*lost, release("0.118.0"))
    assert [[each.version for each in alike] for alike in stretches(known)] == [["0.118.0"]]
    assert "Could not be tested:\n\n- 0.9.0 to 0.117.0: codex has no build\n" in page({"codex": known})


@pytest.mark.long
def test_a_release_that_can_not_be_installed_says_why() -> None:
    """An unavailable release counts as unanswered, not as tested, and the page says why."""
    lost = release("0.118.0", Verdict.UNANSWERED, why="no build for this platform")
    known = {"codex": of_codex(release("0.9.0", Verdict.DEGRADED, {"help.surface": PASSES}), lost)}
    assert "| Codex CLI | 1 of 3 | 0 | 1 | 0 | 1 | 2026-11 | 0.9.0 | 0.9.0: degraded (2026-11) |" in summary(known)
    assert "no build for this platform" in page(known)
    assert "1 of 3 published releases were tested completely, on" in page(known)


def test_readme_without_marks_is_refused() -> None:
    """A README without the marks is rejected."""
    with pytest.raises(ValueError, match="compatibility"):
        in_readme("# turngate\n", {})
