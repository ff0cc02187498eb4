"""The HTML report in a real Chromium, at desktop and phone width."""

from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.browser.axe import violations
from tests.browser.chromium import DESKTOP, PHONE, Browser
from tests.probes.conform.reports import MILD, REPORT, row
from tests.probes.gate import views
from tests.probes.report import samples
from turngate_probes.conform import conform_view as conform
from turngate_probes.conform.conform_report import ConformReport, ScenarioResult
from turngate_probes.report.page import page
from turngate_probes.report.release_view import view
from turngate_probes.report.reports import GateReport, ProbeReport

CELL = "a.cell[aria-label='codex 0.169.0, resume.accepted: fail']"
NEXT_FRAME = "requestAnimationFrame(() => requestAnimationFrame(done));"
OPEN = "(e => e && e.checkVisibility() ? e.innerText : null)(document.querySelector('.detail:target'))"
FOCUS = "document.activeElement.getAttribute('aria-label')"
SHOWN = "[...document.querySelectorAll('a.cell[data-state]:not(.off)')].filter(e => e.checkVisibility()).length"
# the contrast of text to its own background, by WCAG 2
CONTRAST = """(selector => {
  const part = c => { c /= 255; return c <= .03928 ? c / 12.92 : ((c + .055) / 1.055) ** 2.4; };
  const light = s => { const [r, g, b] = s.match(/[\\d.]+/g).map(Number); return .2126 * part(r) + .7152 * part(g) + .0722 * part(b); };
  const ground = e => { const c = getComputedStyle(e).backgroundColor; return c.startsWith('rgba(0, 0, 0, 0') ? ground(e.parentElement) : c; };
  return Math.min(...[...document.querySelectorAll(selector)].map(e => {
    const [a, b] = [light(getComputedStyle(e).color), light(ground(e))]; return (Math.max(a, b) + .05) / (Math.min(a, b) + .05); }));
})"""  # noqa: E501


Opened = Callable[..., Browser]


def orchestrator() -> ConformReport:
    """Return a report with every result, for two engines, of an orchestrator whose output is hostile."""
    mild = replace(MILD, detail=samples.HOSTILE)
    other = replace(row("banner", ScenarioResult.FAIL, mild), engine="gemini", version="0.61.0")
    return replace(REPORT, results=(*REPORT.results, other))


@pytest.fixture(name="opened")
def _opened(tab: Browser, tmp_path: Path) -> Opened:
    """Open the page of a report in a window of this size."""

    def opened(
        report: ProbeReport | GateReport | ConformReport,
        size: tuple[int, int] = DESKTOP,
        *,
        dark: bool = False,
        script: bool = True,
    ) -> Browser:
        shown = conform.view(report) if isinstance(report, ConformReport) else view(report)
        (tmp_path / "page.html").write_text(page(shown), "utf-8")
        tab.open(tmp_path / "page.html", size, dark=dark, script=script)
        return tab

    return opened


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize(
    "make",
    [samples.mixed, samples.hostile, samples.of, views.green_by_baseline, views.hostile, orchestrator],
)
def test_the_page_needs_nothing_and_complains_of_nothing(
    opened: Opened, make: Callable[[], ProbeReport], size: tuple[int, int]
) -> None:
    """The page requests no other address, and neither its policy nor its script reports an error."""
    tab = opened(make(), size)
    assert tab.ask("document.querySelector('h1').innerText")
    assert tab.complaints() == []
    assert [url.rpartition("/")[2] for url in tab.requested()] == ["page.html"]


def test_hostile_text_does_nothing(opened: Opened) -> None:
    """Hostile text runs nothing, even after every cell was opened and every text searched."""
    tab = opened(samples.hostile())
    tab.ask("document.querySelectorAll('a.cell').forEach(e => e.click())")
    tab.click("#find")
    tab.type("<script>")
    assert tab.ask("window.hacked === undefined && document.scripts.length") == 1
    assert tab.ask("document.querySelectorAll('main img, article img, iframe, [onerror]').length") == 0
    assert tab.ask("document.querySelector('.detail:target').innerText.includes('onerror')") is True
    assert tab.complaints() == []


def test_a_click_on_a_cell_shows_its_evidence(opened: Opened) -> None:
    """A click shows the command, both streams and the model requests; another click hides them."""
    tab = opened(samples.mixed())
    assert tab.ask(OPEN) is None
    tab.click(CELL)
    for shown in (
        "the resume was refused",
        "codex exec --json",
        '{"type":"thread.started"}',
        "stderr is empty",
        "POST /v1/responses",
        "tgn-0011223344556677",
        "exit code 0",
    ):
        assert shown in tab.ask(OPEN)
    tab.click(".detail:target .close")
    assert tab.ask(OPEN) is None


def test_a_verdict_tells_of_its_release(opened: Opened) -> None:
    """A click on a verdict shows why the release could not be probed, and what to do."""
    tab = opened(samples.mixed())
    tab.click("a.cell[aria-label='opencode 1.0.0: unanswered (clause set 2026-12)']")
    assert "npm is absent" in tab.ask(OPEN)
    assert "install Node.js" in tab.ask(OPEN)


def test_the_keyboard_reaches_everything(opened: Opened) -> None:
    """Arrows move between cells, Enter opens one, Escape closes it and returns the focus."""
    tab = opened(samples.mixed())
    tab.ask("document.querySelector('button[type=reset]').focus()")
    tab.press("Tab")
    assert tab.ask(FOCUS) == "codex 0.169.0: broken (clause set 2026-12)"
    tab.press("ArrowDown")
    assert tab.ask(FOCUS) == "codex 0.169.0, help.surface: fail"
    tab.press("ArrowRight")
    assert tab.ask(FOCUS) == "gemini 0.61.0, help.surface: pass"
    tab.press("ArrowDown")
    tab.press("ArrowLeft")
    assert tab.ask(FOCUS) == "codex 0.169.0, resume.accepted: fail"
    tab.press("Enter")
    assert "the resume was refused" in tab.ask(OPEN)
    assert tab.ask("document.activeElement.matches('.detail:target')") is True
    tab.press("Escape")
    assert tab.ask(OPEN) is None
    assert tab.ask(FOCUS) == "codex 0.169.0, resume.accepted: fail"
    # the matrix is one tab stop, so the next one comes after it
    tab.press("Tab")
    assert tab.ask("document.activeElement.closest('.matrix')") is None


def test_the_matrix_is_filtered_by_engine_result_and_text(opened: Opened) -> None:
    """Rows and columns without a match are hidden, and the number of matching cells is shown."""
    tab = opened(samples.mixed())
    every = tab.ask(SHOWN)
    tab.click("input[value=fail]")
    assert tab.ask(SHOWN) == 2
    assert tab.ask("document.querySelectorAll('tr[data-row]:not([hidden])').length") == 1 + 2
    assert tab.ask("document.querySelectorAll('th[data-col]:not([hidden])').length") == 1
    assert tab.ask("document.querySelector('output').innerText") == f"2 of {every} cells match"
    tab.click("button[type=reset]")
    assert tab.ask(f"new Promise(done => setTimeout(() => done({SHOWN})))") == every
    tab.click("input[value=gemini]")
    assert tab.ask(SHOWN) == every / 2
    assert tab.ask("document.querySelector('th.engine:not([hidden])').colSpan") == 2
    tab.click("#find")
    tab.type("orchestrator must: STAY")
    assert tab.ask(SHOWN) == 1
    tab.type(" nowhere")
    assert tab.ask(SHOWN) == 0
    assert tab.ask("document.querySelector('.empty').checkVisibility()") is True


def test_it_works_without_script(opened: Opened) -> None:
    """Without script, cells are links, and controls that need script are hidden."""
    tab = opened(samples.mixed(), script=False)
    assert tab.ask("document.querySelector('.filters').checkVisibility()") is False
    tab.click(CELL)
    assert "the resume was refused" in tab.ask(OPEN)
    tab.click(".detail:target .close")
    assert tab.ask(OPEN) is None


@pytest.mark.parametrize("make", [samples.mixed, samples.hostile, lambda: samples.many(30)])
def test_on_a_phone_the_matrix_alone_scrolls_sideways(opened: Opened, make: Callable[[], ProbeReport]) -> None:
    """The matrix scrolls with a fixed first column; the page and the details fit the screen."""
    tab = opened(make(), PHONE)
    assert tab.ask("document.documentElement.scrollWidth") == PHONE[0]
    left = "document.querySelector('tr[data-row] th').getBoundingClientRect().left"
    before = tab.ask(left)
    assert tab.ask("(e => { e.scrollLeft = 100; return e.scrollLeft; })(document.querySelector('.scroll'))") > 0
    assert tab.ask(left) == before
    tab.ask("document.querySelector('a.cell.fail[data-state]').click()")
    assert tab.ask("(e => e.scrollWidth - e.clientWidth)(document.querySelector('.detail:target'))") == 0
    assert tab.ask("document.querySelector('.detail:target').getBoundingClientRect().width") == PHONE[0]


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_the_table_of_tool_access_has_lines_one_can_read(opened: Opened, size: tuple[int, int]) -> None:
    """No word is broken, not on a phone either, where each row is stacked; a row links to its release."""
    report = samples.plain(samples.mixed())
    ways = {"interactive": "denied", "auto": "executed"}
    report["releases"][0]["tool_access"] = {
        mode: {
            "tools": ["shell"],
            "call": {"tool": "shell", "outcome": outcome, "exit_code": 0, "seconds": 0.1, "told": ""},
        }
        for mode, outcome in ways.items()
    }
    tab = opened(samples.read(report), size)
    assert (
        tab.ask("Math.max(...[...document.querySelectorAll('.tool-access :is(th, td)')].map(e => e.clientHeight))") < 60
    )
    tab.click(".tool-access a")
    assert tab.ask(OPEN).startswith("Close\n\nbroken")
    assert "shell" in tab.ask(OPEN)


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("dark", [False, True])
def test_it_can_be_read_in_light_and_dark(opened: Opened, size: tuple[int, int], dark: bool) -> None:  # noqa: FBT001
    """The page follows the reader's colour scheme, and all text has enough contrast."""
    tab = opened(samples.mixed(), size, dark=dark)
    ground = tab.ask("getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)[0]")
    assert (ground < 64) is dark
    for selector in (".cell:not(.off)", "h1", ".lead", ".meta", ".hint", "th", "th small", "dt", "dd", ".filters span"):
        assert tab.ask(f"{CONTRAST}({selector!r})") >= 4.5, selector


def test_a_result_is_told_by_more_than_its_colour(opened: Opened) -> None:
    """Each result has its own sign, and a text for screen readers."""
    tab = opened(samples.mixed())
    signs = tab.ask(
        "[...document.querySelectorAll('a.cell[data-state]')].map(e => e.dataset.state + ' ' + "
        "document.querySelector(e.querySelector('use').getAttribute('href')).innerHTML)"
    )
    drawn = {sign.partition(" ")[::2] for sign in signs}
    assert len(drawn) == len({state for state, _ in drawn}) == len({sign for _, sign in drawn}) == 6
    assert tab.ask("document.querySelector('.cell svg').getBoundingClientRect().width") >= 12


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("make", [views.green_by_baseline, views.red_by_a_tool])
def test_the_page_of_a_gate_can_be_read(
    opened: Opened,
    make: Callable[[], GateReport],
    size: tuple[int, int],
    dark: bool,  # noqa: FBT001
) -> None:
    """The headline shows the outcome, the table of differences scrolls on its own, and all text has enough contrast."""
    report = make()
    tab = opened(report, size, dark=dark)
    assert report.new.release in tab.ask("document.querySelector('h1').innerText")
    assert f"Exit code {report.exit_code}" in tab.ask("document.querySelector('.lead').innerText")
    assert tab.ask("document.documentElement.scrollWidth") == size[0]
    additive = ".gate details tr:has(.impact)"
    assert not tab.ask(f"document.querySelector({additive!r}).checkVisibility()")
    tab.click(".gate summary")
    assert tab.ask(f"document.querySelector({additive!r}).innerText").startswith("additive")
    for selector in (
        ".gate h2",
        ".gate li",
        ".remaining",
        ".new",
        ".gate th",
        ".gate td",
        ".impact",
        ".cell:not(.off)",
    ):
        if tab.ask(f"document.querySelector({selector!r}) !== null"):
            assert tab.ask(f"{CONTRAST}({selector!r})") >= 4.5, selector


@pytest.mark.parametrize("make", [samples.mixed, lambda: samples.many(30)])
def test_nothing_shows_through_the_header_that_stays(opened: Opened, make: Callable[[], ProbeReport]) -> None:
    """The header is opaque and looks the same over any row."""
    tab = opened(make())
    box = tab.ask(
        "(s => { s.scrollIntoView(); const r = s.querySelector('thead').getBoundingClientRect();"
        # without the round corners, and without the last row of pixels, which header and table share
        "return {x: r.x + 20, y: r.y + scrollY, width: r.width / 2, height: Math.floor(r.height) - 1, scale: 2}; })"
        "(document.querySelector('.scroll'))"
    )
    assert tab.ask("getComputedStyle(document.querySelector('.matrix thead')).backgroundColor") == "rgb(255, 255, 255)"
    seen = set()
    for top in (150, 171, 203, 240):
        tab.ask(f"new Promise(done => {{ document.querySelector('.scroll').scrollTop = {top}; {NEXT_FRAME} }})")
        seen.add(tab.send("Page.captureScreenshot", format="png", clip=box)["data"])
    assert len(seen) == 1


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("make", [samples.mixed, views.green_by_baseline, orchestrator])
def test_the_accessibility_checker_is_content(
    opened: Opened,
    make: Callable[[], ProbeReport],
    size: tuple[int, int],
    dark: bool,  # noqa: FBT001
) -> None:
    """axe-core finds no violation, neither on the page as it opens nor with a cell open."""
    tab = opened(make(), size, dark=dark)
    assert violations(tab) == []
    tab.ask("document.querySelector('a.cell.fail[data-state]').click()")
    assert violations(tab) == []


def test_the_page_of_an_orchestrator_shows_what_it_broke_and_its_calls(opened: Opened) -> None:
    """A problem opens its cell: the rule, what shows that it is broken, and each call of the engine."""
    tab = opened(orchestrator())
    tab.click(".problems a")
    for shown in ("it was still running", "A turn that hangs ends within its deadline.", "exec -", "call 1"):
        assert shown in tab.ask(OPEN)
    tab.press("Escape")
    tab.click("input[value=unanswered]")
    assert tab.ask(SHOWN) == 1


def test_a_phone_shows_differences_whole(opened: Opened) -> None:
    """Each difference is stacked, so that nothing is cut off at the side."""
    tab = opened(views.green_by_baseline(), PHONE)
    edge = "Math.max(...[...document.querySelectorAll('.differences td')].map(e => e.getBoundingClientRect().right))"
    assert tab.ask(edge) <= PHONE[0]
    assert "why it matters" in tab.ask(
        "getComputedStyle(document.querySelector('.differences td:last-child'), '::before').content"
    ) + tab.ask("document.querySelector('.differences td:last-child').dataset.label")


@pytest.mark.parametrize(
    "make",
    [
        views.green_by_baseline,
        views.green_with_changes,
        views.unanswered,
        lambda: samples.of(samples.whole(views.fails(), verdict="broken")),
        orchestrator,
    ],
)
def test_a_phone_shows_verdicts_and_both_releases_whole(opened: Opened, make: Callable[[], GateReport]) -> None:
    """No table scrolls, and nothing in a cell is cut."""
    tab = opened(make(), PHONE)
    cells = "[...document.querySelectorAll('.cell, .releases span')]"
    is_cut = "e => e.scrollWidth > e.clientWidth || e.scrollHeight > e.clientHeight"
    assert tab.ask(f"{cells}.filter({is_cut}).map(e => e.innerText)") == []
    assert tab.ask("[...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > e.clientWidth).length") == 0


@pytest.mark.parametrize("size", [DESKTOP, PHONE])
def test_one_release_is_a_list(opened: Opened, size: tuple[int, int]) -> None:
    """Problems and caveats come first, each with its word, and a passing clause is no green bar."""
    tab = opened(samples.of(samples.whole(views.fails(), verdict="broken")), size)
    assert tab.ask("document.querySelector('.family').innerText").strip().lower() == "problems and caveats"
    first, *others = tab.ask("[...document.querySelectorAll('a.cell[data-state]')].map(e => e.innerText.trim())")
    assert (first, {*others}) == ("fail", {"pass"})
    assert tab.ask("document.querySelector('a.cell.pass').getBoundingClientRect().width") < 120
    assert tab.ask("getComputedStyle(document.querySelector('a.cell.pass')).backgroundColor") == "rgba(0, 0, 0, 0)"
    assert violations(tab) == []
