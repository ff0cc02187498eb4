"""The accessibility checker axe-core, from npm, stored in turngate's cache."""

import hashlib
import subprocess
import tarfile
import tempfile
from pathlib import Path

from tests.browser.chromium import Browser
from turngate.files import default_cache, write_atomically

RUN = (
    "axe.run({runOnly: ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice']})"
    ".then(done => done.violations.map(v => v.id + ': ' + v.nodes.map(n => n.html).join()))"
)
VERSION = "4.14.1"
SHA256 = "e6b0ce02b84d892e2e33e403485e7f3d6c29e2be6df65daf44d89ba564139745"


def violations(tab: Browser) -> list[str]:
    """Return what the checker finds on the page that is open."""
    tab.ask(_source())
    found: list[str] = tab.ask(RUN)
    return found


def _source() -> str:
    """Return the script; the package is downloaded once and its checksum verified."""
    kept = default_cache() / f"axe-core-{VERSION}.js"
    if not kept.exists():
        with tempfile.TemporaryDirectory() as folder:
            command = ("npm", "pack", "--silent", f"axe-core@{VERSION}")
            subprocess.run(command, cwd=folder, check=True, stdout=subprocess.PIPE)
            (packed,) = Path(folder).glob("*.tgz")
            assert hashlib.sha256(packed.read_bytes()).hexdigest() == SHA256
            with tarfile.open(packed) as archive:
                script = archive.extractfile("package/axe.min.js")
                assert script
                write_atomically(kept, script.read().decode())
    return kept.read_text("utf-8")
