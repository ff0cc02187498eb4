"""Renders an agent's Markdown as HTML that does nothing: no HTML of its own, no images, no styles, only links."""

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache, lru_cache
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.common.utils import escapeHtml
from markdown_it.renderer import RendererHTML
from markdown_it.token import Token
from markupsafe import Markup

from turngate.line_breaks import unbroken
from turngate_reference.server.web.page.display_text import displayed, whole

MAX_MARKDOWN = 32_000
MAX_BRACKETS = 1000  # the parser looks for the end of each
_LINK = re.compile(r"https?://[^/]|mailto:.", re.IGNORECASE)
_TEXT = re.compile(r"(?<=>)[^<]+")


@lru_cache(1000)  # an open page is read again at every change
def as_html(text: str) -> Markup:
    """Return the HTML of a text of at most `MAX_MARKDOWN` characters; the middle of a longer one is left out.

    Everything that isn't Markdown, such as HTML, is escaped, and invisible characters are shown. Images become links to
    them. Links lead to http, https and mailto addresses only, and show the host. A text with too many brackets isn't
    formatted.
    """
    if text.count("[") > MAX_BRACKETS:
        return Markup('<p class="plain">{}</p>').format(whole(displayed(text, MAX_MARKDOWN)))
    parser = _parser()
    tokens = parser.parse(displayed(text, MAX_MARKDOWN))
    for token in _all(tokens):
        _make_inert(token)
    html: str = parser.renderer.render(tokens, parser.options, {})
    kept = _TEXT.sub(lambda text: unbroken(text[0]), html)
    return Markup(kept)  # noqa: S704 - the renderer escapes all text, and the parser passes no HTML


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "breaks": True})
    parser.enable(["table", "strikethrough"]).disable(["html_block", "html_inline"])
    parser.validateLink = lambda url: bool(_LINK.match(url))  # type: ignore[method-assign]
    # a table that is wider than a phone scrolls, by the keyboard too, and the page doesn't
    parser.add_render_rule("table_open", lambda *_: '<div class="scroll" tabindex="0"><table>\n')
    parser.add_render_rule("table_close", lambda *_: "</table></div>\n")
    parser.add_render_rule("image", _image)
    return parser


def _image(renderer: RendererHTML, tokens: Sequence[Token], at: int, *_: object) -> str:
    """Render an image as a link to it; inside a link, as its description alone."""
    image, text = tokens[at], escapeHtml(tokens[at].content or "image")
    is_in_link = sum(token.nesting for token in tokens[:at] if token.type.startswith("link_"))
    return text if is_in_link else f"<a{renderer.renderAttrs(image)}>{text}</a>"


def _all(tokens: Iterable[Token]) -> Iterator[Token]:
    for token in tokens:
        yield token
        yield from _all(token.children or ())


def _make_inert(token: Token) -> None:
    """Fit a token into the page: its headings and links are the page's own."""
    match token.type:
        case "heading_open" | "heading_close":
            token.tag, token.attrs = "p", {"class": "heading"} if token.nesting > 0 else {}
        case "link_open" | "image":
            url = str(token.attrs["href" if token.type == "link_open" else "src"])
            host = urlsplit(url).netloc or url.partition(":")[2]
            token.attrs = {"href": url, "rel": "noopener noreferrer nofollow", "target": "_blank", "data-host": host}
        case "th_open" | "td_open":
            token.attrs = {}  # alignment would be a style
        case "fence":
            token.info = ""
