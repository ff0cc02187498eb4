"""The HTML page; `tests/browser` tests it in a browser."""

import base64
import hashlib
import html
import re
from collections.abc import Callable
from html.parser import HTMLParser

import pytest
from msgspec.structs import replace

from tests.probes.report import samples
from tests.probes.report.samples import EVERY
from turngate_probes.report import page as subject
from turngate_probes.report.markdown import markdown
from turngate_probes.report.page import page
from turngate_probes.report.release_view import view
from turngate_probes.report.reports import ProbeReport
from turngate_probes.report.view import View

ADDRESSES = {"src", "href", "action", "data", "poster", "srcset", "formaction", "ping", "background", "style"}


class PageReader(HTMLParser):
    """Collects every element, and the text of some."""

    def __init__(self, report: ProbeReport) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.raw: dict[str, list[str]] = {"script": [], "style": [], "pre": []}
        self._in: list[str] = []
        self.feed(page(view(report)))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, dict(attrs)))
        self._in.append(tag)
        if tag in self.raw:
            self.raw[tag].append("")

    def handle_endtag(self, tag: str) -> None:
        """Leave it."""
        while self._in and self._in.pop() != tag:
            pass

    def handle_data(self, data: str) -> None:
        """Note its text."""
        for tag in self._in:
            if tag in self.raw:
                self.raw[tag][-1] += data

    def named(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of every element of a kind."""
        return [attributes for name, attributes in self.elements if name == tag]


@pytest.mark.parametrize("make", [samples.mixed, samples.hostile, lambda: samples.many(12), samples.of])
def test_the_policy_lets_in_our_own_script_and_style_alone(make: Callable[[], ProbeReport]) -> None:
    """The page has one script and one style, and its policy allows only these, by their hashes."""
    reader = PageReader(make())
    (policy,) = [attributes["content"] for attributes in reader.named("meta") if attributes.get("http-equiv")]
    assert policy
    for tag, directive in (("script", "script-src"), ("style", "style-src")):
        (text,) = reader.raw[tag]
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    tags = [tag for tag, _ in reader.elements]
    assert tags.index("meta") < tags.index("style") < tags.index("script")


@pytest.mark.parametrize("make", [samples.mixed, samples.hostile])
def test_nothing_outside_of_the_page_is_named(make: Callable[[], ProbeReport]) -> None:
    """Every link leads to an element of the page, and no element loads or runs anything else."""
    reader = PageReader(make())
    ids = [attributes["id"] for _, attributes in reader.elements if "id" in attributes]
    assert len(set(ids)) == len(ids)
    for tag, attributes in reader.elements:
        assert not [name for name in attributes if name.startswith("on")]
        assert tag not in {"img", "iframe", "object", "embed", "link", "base", "video", "audio"}
        for name in ADDRESSES & set(attributes):
            assert name == "href"
            assert (attributes[name] or "").startswith("#")
            assert (attributes[name] or "")[1:] in ids


def test_hostile_text_is_text() -> None:
    """Hostile engine output is shown unchanged, in the same elements as harmless text."""
    text = page(view(samples.hostile()))
    assert not {"\x00", "\x1b", "\ud800", "\u202e"} & set(text)
    assert text.count("<script") == text.count("</script") == 1
    assert "window.hacked" in text
    assert "{{ 7 * 7 }}" in text
    assert "49" not in re.findall(r"\{\{ 7 \* 7 \}\}|49", text)


def test_an_option_stays_whole_at_the_end_of_a_line() -> None:
    """The dashes of an option stay with its name in what is shown, but not in attributes."""
    text = page(view(samples.mixed()))
    assert 'codex exec <span class="unbroken">--json</span>' in text
    assert "--json<" not in text.replace('<span class="unbroken">--json</span>', "")
    assert not re.search(r'="[^">]*<span class="unbroken">', text)


def test_a_failure_says_what_to_do_line_by_line() -> None:
    """What to do in an orchestrator and in a contract are paragraphs, and what is between backticks is code."""
    text = page(view(samples.mixed()))
    assert re.search('<p class="why">In a contract: .*<code>help.pages</code>.*</p><p class="why">More: turngate', text)


def test_no_line_begins_with_a_dot() -> None:
    """The line that says how it was tested has a dot between two parts only, and breaks after it."""
    shown = view(samples.mixed())
    (line,) = re.findall(r'<p class="meta">(.*)</p>', page(replace(shown, meta=("", "level hermetic", "", "Linux"))))
    assert line.split("&nbsp;· ")[1:] == ["level hermetic", "Linux"]
    assert " ·" not in page(shown).partition("</title>")[2]


def test_every_answer_has_a_cell_and_every_cell_its_evidence() -> None:
    """Each cell names its result in words and opens evidence with argv, streams and requests."""
    report = samples.mixed()
    reader = PageReader(report)
    cells = [attributes for attributes in reader.named("a") if (attributes.get("class") or "").startswith("cell ")]
    answers = sum(len(release.clauses) for release in report.releases)
    assert len(cells) == answers + len(report.releases)
    labels = [attributes["aria-label"] for attributes in cells]
    assert "codex 0.169.0, resume.accepted: fail" in labels
    assert "gemini 0.61.0, prompt.large: stale" in labels
    assert "opencode 1.0.0: unanswered (clause set 2026-12)" in labels
    assert any("$ " not in text and "codex exec --json" in text for text in reader.raw["pre"])
    text = page(view(report))
    assert "/v1/responses" in text
    assert "tgn-0011223344556677" in text


def test_the_page_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has a size limit. What is left out is named, and failures are left out last."""
    monkeypatch.setattr(subject, "MOST_EVIDENCE", 15_000)
    report = samples.many(6)
    text = page(view(report))
    assert text.count("to limit the size of this page") == 6 - text.count('<pre class="argv"')
    assert text.count('<pre class="argv"') == 2


def test_a_report_of_nothing_is_a_page() -> None:
    """The page of a report without releases says so."""
    assert "Nothing was probed." in page(view(samples.of()))


def test_a_caveat_is_shown_with_what_to_do() -> None:
    """A caveat is shown with its explanation in its cell, and once near the top, after new problems."""
    text = page(view(samples.mixed()))
    assert 'aria-label="gemini 0.61.0, resume.other-cwd: known caveat"' in text
    assert 'aria-label="gemini 0.61.0: compatible (clause set 2026-12), 1 known caveat"' in text
    assert 'tied<span class="action"><b>Your orchestrator must:</b> stay in the directory of the first turn' in text
    assert f"{EVERY - 2} passed, 1 known caveat, 0 failed, 0 not run, 1 unsupported" in text
    first = [text.index(part) for part in ('id="problems"', 'id="actions"', 'class="filters"')]
    assert first == sorted(first)
    assert text.count("What your orchestrator must do") == 1


@pytest.mark.parametrize("render", [page, markdown])
def test_what_needs_guards_is_told_where_actions_are(render: Callable[[View], str]) -> None:
    """A reader of a page or of Markdown learns, as one of the terminal does, for whom `compatible` holds."""
    text = render(view(samples.of(samples.whole(release="codex@0.169.0"))))
    told = text.partition("What your orchestrator must do")[2]
    assert re.search(r"codex@0\.169\.0 is compatible only with turngate's guards", html.unescape(told))


def test_names_in_a_clause_are_code() -> None:
    """The sentences of clauses name things between backticks."""
    sentences = re.findall(r'<p class="sentence">(.*?)</p>', page(view(samples.mixed())))
    assert "<code>" in "".join(sentences)
    assert "`" not in "".join(sentences)


def test_problems_come_first() -> None:
    """They are failures, caveats and stale ones; a release of which nothing was tested adds none, and is no failure."""
    text = page(view(samples.mixed()))
    first = text.partition("Problems and caveats")[2].partition("</tbody>")[0]
    noted = set(re.findall(r'data-text="(\S+) ', first))
    assert noted == {"help.surface", "resume.accepted", "resume.other-cwd", "prompt.large"}
    remarks = text.partition('<ul class="problems">')[2].partition("</ul>")[0]
    assert re.findall(r'<li class="(\w+)">', remarks) == ["not_run", "fail", "deviates", "stale"]
