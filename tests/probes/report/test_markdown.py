"""Markdown is parsed by a CommonMark parser with GitHub's tables."""

from html.parser import HTMLParser

import pytest
from markdown_it import MarkdownIt

from tests.longer import first_quick
from tests.probes.report import journals as j
from tests.probes.report import samples
from tests.probes.report.samples import EVERY
from turngate_probes.report import markdown as subject
from turngate_probes.report.markdown import markdown
from turngate_probes.report.release_view import view
from turngate_probes.report.reports import ProbeReport

OURS = {"h2", "h3", "p", "ul", "li", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "pre"}


class Reader(HTMLParser):
    """Collects the elements of a page and their text."""

    def __init__(self) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: dict[str, list[str]] = {}
        self._open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, dict(attrs)))
        self._open.append(tag)
        self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        """Leave an element."""
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        """Note text."""
        for tag in set(self._open):
            self.texts[tag][-1] += data


def read(report: ProbeReport) -> Reader:
    """Render Markdown as GitHub does, and parse the page."""
    reader = Reader()
    reader.feed(
        MarkdownIt("commonmark", {"html": True, "linkify": False}).enable("table").render(markdown(view(report)))
    )
    return reader


def test_it_tells_the_gist_each_verdict_and_each_failure() -> None:
    """Each release has a row, with its failures in a collapsed section below."""
    shown = read(samples.mixed())
    assert shown.texts["h2"] == ["❌ 1 of 4 releases is broken"]
    cells = shown.texts["td"][: 4 * 4]
    counted = f"{EVERY - 2} passed, 0 known caveats, 2 failed, 0 not run"
    assert cells[:4] == ["codex@0.169.0", "❌ broken (clause set 2026-12)", counted, "resumable"]
    assert cells[5:7] == [
        "✅ compatible (clause set 2026-12), 1 known caveat",
        f"{EVERY - 2} passed, 1 known caveat, 0 failed, 0 not run, 1 unsupported",
    ]
    assert cells[-3:] == ["❔ unanswered (clause set 2026-12)", "npm is absent", "not known"]
    assert shown.texts["summary"][0] == "❌ codex@0.169.0: resume.accepted (breaking): the resume was refused"
    assert "$ codex exec --json" in shown.texts["pre"][0]
    assert [tag for tag, _ in shown.elements].count("details") == 2


def test_problems_come_before_what_to_do_about_caveats_and_both_before_the_tables() -> None:
    """Problems come first, then known caveats with what to do, then the tables; each has one line."""
    shown = read(samples.mixed())
    assert shown.texts["li"] == [
        "❌ opencode@1.0.0: could not be tested: npm is absent",
        "❌ codex@0.169.0 resume.accepted: the resume was refused",
        "🟡 codex@0.169.0 help.surface: --json is gone",
        "🔵 gemini@0.61.0 prompt.large: stale: gone",
        "resume.other-cwd: stay in the directory of the first turn (gemini@0.61.0)",
    ]
    assert shown.texts["h3"] == ["What your orchestrator must do"]
    tags = [tag for tag, _ in shown.elements]
    assert tags.index("ul") < tags.index("h3") < tags.index("table")


def test_a_verdict_that_rests_on_recordings_says_so() -> None:
    """A verdict from recordings says so in the heading and in its row; a verdict from a run doesn't."""
    replayed = samples.whole(release="iflow@0.5.19", source="recordings", executable=None)
    shown = read(samples.of(replayed))
    assert shown.texts["h2"] == [f"✅ iflow@0.5.19 is compatible (clause set {j.RECORDED_SET}), from recordings"]
    assert shown.texts["td"][1] == f"✅ compatible (clause set {j.RECORDED_SET}), from recordings"
    assert "recordings" not in markdown(view(samples.mixed()))


def test_nothing_that_an_engine_wrote_is_markup() -> None:
    """Engine output stays text: neither HTML nor Markdown in it breaks its cell, line or block."""
    shown = read(samples.hostile())
    assert {tag for tag, _ in shown.elements} <= OURS
    assert {tuple(attributes.items()) for _, attributes in shown.elements} <= {(), (("style", "text-align:right"),)}
    assert shown.texts["td"][0].startswith("</script><script>")
    rows = [len(line.split("|")) for line in markdown(view(samples.hostile())).splitlines() if line.startswith("| ")]
    assert len(shown.texts["td"]) + len(shown.texts["th"]) == sum(count - 2 for count in rows)
    text = markdown(view(samples.hostile()))
    assert "@all" not in text.partition("<pre>")[0]
    assert not {"\x00", "\x1b", "\u202e"} & set(text)


@pytest.mark.parametrize("text", first_quick(["<", "x", "ä"]))
def test_it_is_never_longer_than_github_shows(text: str) -> None:
    """A long report leaves out whole failures, and counts them, to stay within GitHub's limit."""
    report = samples.many(400, text)
    written = markdown(view(report))
    assert len(written.encode()) <= subject.MOST_BYTES
    assert len(written.encode()) > subject.MOST_BYTES * 0.9
    shown = written.count("<details>")
    assert written.count("</details>") == shown
    assert f"{400 - shown} more failures are not shown" in written


def test_an_empty_report_says_so() -> None:
    """A report without releases says so."""
    assert "Nothing was probed" in markdown(view(samples.of()))
