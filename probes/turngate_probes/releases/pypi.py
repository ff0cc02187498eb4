"""Installs releases of engines from PyPI, for where there is no Node: wheels alone, which run nothing."""

import json
import os
import re
import sys
from functools import partial
from pathlib import Path

from turngate.errors import EnvironmentFailed
from turngate.process import Ended, ProcessRequest, Stop, run
from turngate.sanitize import redact
from turngate_probes.releases.cache import Installed, Recipe, Say, place
from turngate_probes.releases.npm import TIMEOUT

SITE = "site"
REPORT = "pip-report.json"
_FLAGS = ("--disable-pip-version-check", "--no-input")
_WHEELS = (
    "--quiet",
    "--no-deps",
    "--only-binary=:all:",
    "--no-compile",
    "--no-cache-dir",
    "--target",
    SITE,
    "--report",
    REPORT,
)

# what pip says, what is wrong, what to do about it
_NONE = ("there is no such release for this platform", "ask for another version, or install Node.js for what npm has")
_CAUSES = (
    # an index that lists versions was reached; where pip gave up reaching it, it says that nothing matches, too
    (r"from versions: (?!none\))", *_NONE),
    (
        "Retrying|Connection|timed out|Temporary failure|Max retries|SSLError",
        "the package index cannot be reached",
        "check the network, and pip's proxy and index settings",
    ),
    ("No matching distribution|from versions:", *_NONE),
    ("HASHES? .*MATCH|hash mismatch", "the package's content is not what was promised", "do not use the release"),
    ("No space left|Errno 28", "the disk is full", "make room, or set TURNGATE_CACHE_DIR to a folder on another disk"),
    ("No module named pip", "this Python has no pip", "install pip, or Node.js, which brings npm"),
)


def published(package: str, cwd: Path, stop: Stop | None = None) -> list[str]:
    """Return the versions that have a wheel for this platform; EnvironmentFailed if the index can't say."""
    said = pip(("index", "versions", package), cwd, stop)
    found = re.search(r"^Available versions: (.+)$", said, re.MULTILINE)
    return found[1].split(", ") if found else []


def install(
    engine: str, package: str, executable: str, version: str, cache: Path, say: Say, stop: Stop | None = None
) -> Installed:
    """Return `engine` at `version`, installed into `cache` from its wheel, to the checksum that the index publishes.

    Raises:
        EnvironmentFailed: there is no pip, no index, no such wheel or no room.
    """
    how = Recipe(
        engine, version, package, "PyPI", folder=f"pypi-{version}",
        fill=partial(_fill, package, version, stop),
        find=partial(_executable, executable),
        missing=lambda: EnvironmentFailed(f"{package} {version} holds no executable {executable}", "use npm"),
    )  # fmt: skip
    try:
        return place(how, cache, say)
    except OSError as error:
        raise EnvironmentFailed(f"the cache cannot be written: {error}", "make room or mend its permissions") from error


def pip(args: tuple[str, ...], cwd: Path, stop: Stop | None = None) -> str:
    """Run pip in `cwd`, with the settings that the user has made for it, and return its standard output."""
    argv = (sys.executable, "-m", "pip", *args, *_FLAGS)
    outcome = run(ProcessRequest(argv, cwd, dict(os.environ), timeout=TIMEOUT), stop=stop)
    if outcome.ended is Ended.EXIT and outcome.exit_code == 0:
        return outcome.stdout.decode(errors="replace")
    if outcome.ended is not Ended.EXIT:
        raise EnvironmentFailed(
            f"pip {args[0]} was {outcome.ended.value} after {outcome.seconds:.0f} s", "run it again"
        )
    output = outcome.stderr.decode(errors="replace")
    what = next(((w, hint) for sign, w, hint in _CAUSES if re.search(sign, output)), None)
    if what:
        raise EnvironmentFailed(f"{what[0]} (pip {args[0]})", what[1])
    lines = [line for line in output.splitlines() if line.startswith("ERROR")] or output.splitlines()
    hosts = dict.fromkeys(re.findall(r"https?://[^\s/]+", output), "<package-registry>")
    said = redact("\n".join(lines[:3]), hosts)
    raise EnvironmentFailed(f"pip {args[0]} exited with {outcome.exit_code}: {said}", "what pip says is above")


def _fill(package: str, version: str, stop: Stop | None, folder: Path) -> str:
    pip(("install", *_WHEELS, f"{package}=={version}"), folder, stop)
    report = folder / REPORT
    # pip has held the wheel against this digest
    (installed,) = json.loads(report.read_text("utf-8"))["install"]
    report.unlink()
    return f"sha256-{installed['download_info']['archive_info']['hashes']['sha256']}"


def _executable(name: str, root: Path) -> Path | None:
    found = [each for each in (root / SITE).rglob(name) if each.is_file() and os.access(each, os.X_OK)]
    return min(found, key=lambda each: len(each.parts), default=None)
