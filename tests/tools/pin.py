"""Pins a release of an engine: `python -m tests.tools.pin codex@0.169.0`, or `make pin ARGS=codex@0.169.0`.

npm and uv resolve the dependencies. A pin names no registry, so it works with any mirror.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from turngate import load_contract
from turngate_probes.releases.npm import check_integrity
from turngate_probes.releases.pins import LOCK, MANIFEST, PINS, REQUIREMENTS
from turngate_probes.releases.target import parse_target

NPM = ("npm", "install", "--silent", "--ignore-scripts", "--package-lock-only", "--omit-lockfile-registry-resolved")
UV = (
    *(sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal", "--python-version", "3.11"),
    *("--generate-hashes", "--only-binary", ":all:", "--no-annotate", "--no-header", "--no-emit-index-url", "-"),
)


def main() -> int:
    """Write the pin of the release that is named on the command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("release", metavar="ENGINE@VERSION")
    target = parse_target(parser.parse_args().release)
    if not target.version:
        parser.error("name an exact version, such as codex@0.169.0")
    published = load_contract(target.engine).published
    if published.npm:
        files = npm_pin(target.engine, published.npm.package, target.version)
    elif published.pypi:
        files = pypi_pin(published.pypi.package, target.version)
    else:
        parser.error(f"{target.engine} is in no registry")
    folder = PINS / target.engine
    folder.mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).write_text(text, "utf-8")
        sys.stdout.write(f"wrote {folder / name}\n")
    return 0


def npm_pin(engine: str, package: str, version: str) -> dict[str, str]:
    """Let npm lock a release and its dependencies."""
    manifest = {"name": f"turngate-pin-{engine}", "private": True, "dependencies": {package: version}}
    with tempfile.TemporaryDirectory(prefix="turngate-pin-") as name:
        folder = Path(name)
        (folder / MANIFEST).write_text(_json(manifest), "utf-8")
        subprocess.run(NPM, cwd=folder, check=True)
        lock = json.loads((folder / LOCK).read_text("utf-8"))
    for entry in lock["packages"].values():
        entry.pop("resolved", None)
    check_integrity(lock["packages"], {})
    return {MANIFEST: _json(manifest), LOCK: _json(lock)}


def pypi_pin(package: str, version: str) -> dict[str, str]:
    """Let uv lock a release and its dependencies, the release itself first, with the checksums for every platform."""
    compiled = subprocess.run(UV, input=f"{package}=={version}\n", capture_output=True, text=True, check=True).stdout
    entries = re.split(r"^(?=\S)", compiled, flags=re.MULTILINE)
    own = re.sub(r"[-_.]+", "-", package).lower()
    return {REQUIREMENTS: "".join(sorted(entries, key=lambda entry: not entry.startswith(f"{own}==")))}


def _json(data: object) -> str:
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.exit(main())
