"""MkDocs hooks: pages at the top of the repository become pages of the site."""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]
TOP = {"CONTRIBUTING.md": "contributing.md", "SECURITY.md": "security.md", "CHANGELOG.md": "changelog.md"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages of the top folder, with links as they are inside the site."""
    for name, page in TOP.items():
        text = (ROOT / name).read_text("utf-8")
        files.append(File.generated(config, page, content=re.sub(r"(?<=\]\()([^)#\s]+)", _moved, text)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return a page whose links to the top folder are changed to those of the site."""
    return re.sub(r"(?<=\]\()\.\./([A-Z]+\.md)", lambda link: TOP[link[1]], markdown)


def _moved(link: re.Match[str]) -> str:
    target = link[1]
    if "://" in target:
        return target
    return TOP.get(target) or posixpath.relpath(target, "docs")
