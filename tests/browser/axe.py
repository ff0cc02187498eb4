"""The accessibility checker axe-core, from npm."""

import tarfile

from tests.browser.chromium import Browser
from tests.npm_package import npm_package

RUN = (
    "within => axe.run(within, {runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
    ".then(done => done.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join()))"
)
VERSION = "4.14.1"
SHA256 = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"


def violations(tab: Browser, within: str = "html") -> list[str]:
    """Return what the checker finds on the page that is open, in the element that a selector names."""
    tab.ask(_source())
    found: list[str] = tab.ask(f"({RUN})({within!r})")
    return found


def _source() -> str:
    with tarfile.open(npm_package("axe-core", VERSION, SHA256)) as archive:
        script = archive.extractfile("package/axe.min.js")
        assert script
        return script.read().decode()
