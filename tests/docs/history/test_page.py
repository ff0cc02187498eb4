from msgspec.structs import replace

from tests.tools.docs.history.page import changed_releases, engine_page, entry_html, overview
from tests.tools.docs.history.small import HANGS, OUTPUT, SMALL
from tests.tools.history.with_release import with_release
from turngate.contract.verdict import Verdict
from turngate.history import KnownRelease

PAGE = engine_page(SMALL)


def test_the_newest_tested_release_leads() -> None:
    """A reader sees first whether the newest release is safe, and whether a newer one is untested."""
    leads = "**0.5.0** of 2026-02-05, the newest tested release, is **degraded**, with 1 known caveat"
    assert f"{leads}, by clause set 2026-11." in PAGE
    assert "Not tested yet: 0.6.0." in PAGE
    assert "No release was tested yet." in engine_page(replace(SMALL, releases=()))


def test_the_page_says_in_words_what_the_picture_shows() -> None:
    """The verdicts are listed as text, newest first, and counted."""
    assert "<li>0.4.0 to 0.5.0: degraded by clause set 2026-11 (2 releases)</li>" in PAGE
    assert '<li class="degraded">degraded: 2</li>' in PAGE
    assert '<li class="not-tested">not tested: 2</li>' in PAGE


def test_changes_are_listed_newest_first_in_plain_words() -> None:
    """Each release with changes has a heading with its date and verdict, and its changes as sentences."""
    newer, older = PAGE.index('id="0.5.0">0.5.0'), PAGE.index('id="0.4.0">0.4.0')
    assert newer < older
    assert "2026-02-05, degraded by clause set 2026-11, 1 known caveat" in PAGE
    assert "<li>Records <code>done</code> have the new key <code>b</code> (first turn).</li>" in PAGE
    assert "<li>It is degraded; 0.2.0 was broken.</li>" in PAGE


def test_releases_without_a_change_are_named() -> None:
    """Neighbours that changed nothing share a line."""
    same = KnownRelease(version="0.6.0", verdict=Verdict.DEGRADED, clauses={"stdin.open": HANGS})
    assert "<p>0.6.0: no change.</p>" in engine_page(with_release(SMALL, same))
    two = with_release(with_release(SMALL, same), replace(same, version="0.7.0"))
    assert "<p>0.6.0 to 0.7.0: 2 releases without a change.</p>" in engine_page(two)


def test_an_untested_release_in_between_may_have_brought_a_change() -> None:
    """A change is told of the release that shows it, with what it was compared with."""
    older, newer = changed_releases(SMALL)
    assert "Compared with 0.2.0. 0.3.0, in between, was not tested for this and may have brought it." in entry_html(
        older
    )
    assert "Compared with" not in entry_html(newer)
    without = replace(SMALL, published={**SMALL.published, "0.3.1": None, "0.3.2": None})
    assert "The 3 releases in between were not tested for this" in entry_html(changed_releases(without)[0])


def test_what_is_observed_only_in_some_releases_is_said() -> None:
    """The page says for which releases only clauses were compared."""
    assert "compared only by clauses" not in PAGE
    bare = with_release(SMALL, KnownRelease(version="0.2.0", verdict=Verdict.BROKEN))
    assert "observed in 2 of them (0.4.0 to 0.5.0); the others were compared only by clauses" in engine_page(bare)


def test_long_lists_are_folded() -> None:
    """Of many changes the first are shown, and a long sentence shows its beginning."""
    many = {f"record/{place}": {f"kind{place}": ""} for place in "abcdefghijkl"}
    before = {section: {"other": ""} for section in many}
    known = replace(
        SMALL,
        releases=(
            KnownRelease(version="0.4.0", verdict=Verdict.BROKEN, facts=before),
            KnownRelease(version="0.5.0", verdict=Verdict.BROKEN, facts=many),
        ),
    )
    assert "more changes</summary>" in entry_html(changed_releases(known)[0])
    long = {"record/first turn": OUTPUT["record/first turn"] | {f"done: {'key' * 10}{at}": "" for at in range(20)}}
    (entry,) = changed_releases(
        replace(
            SMALL,
            releases=(
                KnownRelease(version="0.4.0", verdict=Verdict.BROKEN, facts=OUTPUT),
                KnownRelease(version="0.5.0", verdict=Verdict.BROKEN, facts=long),
            ),
        )
    )
    folded = entry_html(entry)
    assert "<details><summary>Records <code>done</code>" in folded
    assert "…</summary>" in folded
    assert folded.count("<code>") == folded.count("</code>")


def test_what_an_engine_wrote_can_not_become_html() -> None:
    """Names are escaped."""
    facts = {"record/first turn": {"done": "", "done: <script>": ""}}
    known = with_release(SMALL, KnownRelease(version="0.5.0", verdict=Verdict.DEGRADED, facts=facts))
    assert "<script>" not in engine_page(known)
    assert "&lt;script&gt;" in engine_page(known)


def test_the_overview_links_each_page() -> None:
    """The overview has a row for each history."""
    date, clauses = (f'<span class="unbroken">{text}</span>' for text in ("2026-02-05", "2026-11"))
    assert f"| [Codex CLI](codex.md) | 0.5.0 | {date} | degraded | {clauses} | 2 |" in overview({"codex": SMALL})
    assert "| [Codex CLI](codex.md) | none |" in overview({"codex": replace(SMALL, releases=())})
