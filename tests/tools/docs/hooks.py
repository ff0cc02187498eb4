"""MkDocs hooks: pages at the top of the repository, and those about histories, become pages of the site."""

import posixpath
import re
from collections.abc import Iterable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from tests.tools.compatibility.render import histories
from tests.tools.docs.history.feeds import atom, entries, json_feed
from tests.tools.docs.history.page import engine_page, overview, title
from turngate import engine_names, history
from turngate.line_breaks import unbroken

ROOT = Path(__file__).parents[3]
TOP = {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md"}


# the page in the navigation that gets those of the engines beside it
OVERVIEW = "history/index.md"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put the history and the recipe of each engine into the navigation."""
    for section in config.nav or ():
        for name, entry in section.items():
            if entry == [OVERVIEW]:
                section[name] = [OVERVIEW, *_pages("history", history.engines())]
            if name == "Engines":
                section[name] = [*entry, {"Run one yourself": _pages("engines", engine_names())}]
    return config


def _pages(folder: str, engines: Iterable[str]) -> list[dict[str, str]]:
    listed = sorted(engines, key=lambda engine: title(engine).lower())
    return [{title(engine): f"{folder}/{engine}.md"} for engine in listed]


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the top folder, with links as they are inside the site, and those about histories."""
    for name, page in TOP.items():
        text = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, page, content=re.sub(r"(?<=\]\()([^)#\s]+)", _moved, text)))
    for name, text in _about_histories().items():
        files.append(File.generated(config, f"history/{name}", content=text))
    return files


def _about_histories() -> dict[str, str]:
    """Return the text of each file about histories."""
    known = histories()
    listed = entries(known)
    pages = {f"{engine}.md": engine_page(each) for engine, each in known.items()}
    return pages | {"index.md": overview(known), "changes.atom": atom(listed), "changes.json": json_feed(listed)}


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page whose links to the top folder are changed to those of the site.

    A span of code with `<![` is written in entities, because MkDocs takes these characters for HTML.
    """
    moved = re.sub(r"(?<=\]\()\.\./([A-Z]+\.md)", lambda link: TOP[link[1]], markdown)
    return re.sub(
        r"`([^`\n]*<!\[[^`\n]*)`",
        lambda span: "<code>" + "".join(f"&#{ord(char)};" for char in span[1]) + "</code>",
        moved,
    )


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page whose options stay whole at the end of a line, where a sentence names them."""
    return re.sub(r"(?<=<code>)[^<]+(?=</code>)", lambda code: unbroken(code[0]), html)


def _moved(link: re.Match[str]) -> str:
    target = link[1]
    if "://" in target:
        return target
    return TOP.get(target) or posixpath.relpath(target, "docs")
