"""Tests that an agent's Markdown becomes HTML that does nothing."""

import time
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tables import each
from turngate_reference.server.web.page.markdown import MAX_MARKDOWN, as_html

TAGS = "strong em s ul li blockquote pre code hr br table thead tbody tr th td"
ALLOWED = {
    **{tag: set[str]() for tag in TAGS.split()},
    "p": {"class"},
    "span": {"class"},
    "ol": {"start"},
    "div": {"class", "tabindex"},
    "a": {"href", "rel", "target", "data-host"},
}
WORDS = r"""
<script>alert(1)</script> <img src=x onerror=y> ![a](http://evil/x.png) [a](javascript:alert(1)) [a](data:x) [b]
[a](//evil) <http://x.y> <javascript:x> [a](/runs) &lt; &#106;avascript: ~~~ ~~ * ** _ ` [ ]( ) ! < > " ' a & \ https://x.y/a?b=c&d
"""
LINES = (
    "[b]: javascript:x\n",
    "# h\n",
    '```x" onload="y\n',
    "> ",
    "- ",
    "1. ",
    "7. ",
    "\n",
    "\n\n",
    "    ",
    "\u202e",
    "\x00",
)
PIECES = st.sampled_from([*WORDS.split(), *LINES, "|a|b|\n|:-:|-:|\n|1|2|\n"])
HARMFUL = r"""
<script>alert(1)</script> <b> <!--x--> [x](javascript:alert(1)) [x](JaVaScRiPt:1) [x](data:text/html,1) [x](/runs)
[x](file:///etc/passwd) [x](//evil.example) [x](vbscript:1) <javascript:alert(1)>
"""


class Checked(HTMLParser):
    """Fails on any tag or attribute that isn't allowed."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Check a tag."""
        given = dict(attrs)
        assert given.keys() <= ALLOWED[tag], (tag, attrs)
        assert given.get("class") in (None, "heading", "plain", "scroll", "unbroken")
        if tag == "a":
            assert (given["href"] or "").lower().startswith(("http://", "https://", "mailto:"))
            assert given["rel"] == "noopener noreferrer nofollow"


def test_markdown_is_formatted() -> None:
    """Headings, emphasis, lists, tables and code are shown as such, and links say where they lead."""
    html = as_html(
        "# Done\n\n- **two** coats\n- `red --dry`\n\n| a |\n|:-:|\n| 1 |\n\n[shop](https://example.org/x)\nnext line"
    )
    for part in (
        '<p class="heading">Done</p>',
        "<li><strong>two</strong> coats</li>",
        '<code>red <span class="unbroken">--dry</span></code>',
        "<td>1</td>",
        '<a href="https://example.org/x" rel="noopener noreferrer nofollow" target="_blank"',
        'data-host="example.org">shop</a>',
        "<br />\nnext line",
    ):
        assert part in html


@each("text", HARMFUL.split())
def test_what_could_do_something_is_text(text: str) -> None:
    """HTML, and links to anything but the web and mail, are shown as they were written."""
    html = as_html(text)
    assert "<a" not in html
    assert "<script" not in html
    assert "<b" not in html


def test_an_image_is_not_loaded() -> None:
    """It becomes a link, or in a link its description; a link in a reference is checked, too."""
    html = as_html("![x<](https://evil.example/x.png)")
    assert "<img" not in html
    assert 'href="https://evil.example/x.png"' in html
    assert "!" not in html
    assert ">x&lt;</a>" in html
    nested = as_html("[![badge](https://evil.example/x.png)](https://fine.example)")
    assert nested.count("<a") == 1
    assert "x.png" not in nested
    assert "<a" not in as_html("![x](javascript:alert(1))")
    assert "<a" not in as_html("[x][y]\n\n[y]: javascript:alert(1)")


def test_invisible_characters_are_shown() -> None:
    """They can't reorder what is read."""
    assert "\\u202e" in as_html("a\u202eb")


@given(st.lists(PIECES, max_size=30).map("".join))
def test_only_harmless_tags_come_out(text: str) -> None:
    """Whatever comes in, only some tags come out, with few attributes."""
    Checked().feed(as_html(text))


@pytest.mark.long
@each("piece", ["[", "![", "*a ", "_a**", "> ", "- ", "`", "<", "[a](", "~~", "|a", "\\", "&", "(", "[]: a\n", "a\n\n"])
def test_hostile_text_takes_bounded_time(piece: str) -> None:
    """A text of any length is formatted in a moment, since only a part of it is."""
    start = time.process_time()
    as_html(piece * (MAX_MARKDOWN // len(piece)))
    assert time.process_time() - start < 20
