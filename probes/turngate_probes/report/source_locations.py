"""Where in the user's repository a finding belongs: a file, relative to the root of the repository, and a line.

That is the file that `--anchor` names, else the one that pins the engine's package, else the running workflow.
"""

import os
import re
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path

from turngate import engine_names, load_contract
from turngate.files import read_regular
from turngate.sanitize import visible
from turngate_probes.report.reports import ReleaseReport

PINS = re.compile(r"package\.json|requirements.*\.(txt|in)|pyproject\.toml|(.*\.)?Dockerfile(\..*)?")
INSTALLED = {"node_modules", "site-packages"}
MOST_DEPTH = 6
MOST_BYTES = 1_000_000

Place = tuple[str, int]
_anchors: list[str] = []


def use_anchor(file: Path | None) -> None:
    """Place every finding at this file from now on (None: no longer). ValueError: it is not in the repository."""
    path = below(file) if file else None
    if file and not path:
        raise ValueError(f"{str(file)!r} is not a file in the repository {root()}")
    _anchors[:] = [path] if path else []


def place_of(release: ReleaseReport | None, entry: str = "") -> Place | None:
    """Return where a finding about a release belongs, or the baseline's `entry` itself; None if unknown.

    `release` None: the finding is about an orchestrator, so the pin of an engine is not its place.
    """
    if _anchors:
        return _anchors[0], 1
    file, _, line = entry.rpartition(":")
    named = below(file) if line.isdecimal() else None
    if named:
        return named, int(line)
    return (_pin(root(), release.engine, release.version) if release else None) or _workflow()


def below(file: Path | str) -> str | None:
    """Name a file relative to the root of the repository; None if it is missing or outside."""
    try:
        return relative(file) if Path(file).resolve().is_file() else None
    except (OSError, RuntimeError, ValueError):  # a name from a report may be invalid, or a symlink loop
        return None


def relative(file: Path | str) -> str | None:
    """Name a file that need not exist relative to the root of the repository; None if it is outside."""
    path = Path(file).resolve()
    return path.relative_to(root()).as_posix() if root() in path.parents else None


def fallback_of(report: Path) -> str:
    """Return what findings without a known location point at: the report itself."""
    return relative(report) or report.name


def unplaced(fallback: str) -> str:
    """Say where results without a known location point, and what to do about it."""
    return (
        "No file here names the engine's package, and this is not a GitHub workflow, so "
        f"results point at {visible(fallback)}. Pass a file in your repository with --anchor FILE."
    )


def root() -> Path:
    """Return the repository that this runs in: the checkout of the working directory, else that of the workflow."""
    here = Path.cwd().resolve()
    checkouts = filter(_is_checkout, (here, *here.parents))
    return next(checkouts, None) or Path(os.environ.get("GITHUB_WORKSPACE") or here).resolve()


def _is_checkout(folder: Path) -> bool:
    """Whether git takes a folder for a checkout: sandboxes of engines put an empty `.git` into folders like /tmp."""
    mark = b"gitdir:"
    with suppress(OSError):
        return (folder / ".git/HEAD").exists() or read_regular(folder / ".git", len(mark)) == mark
    return False


def _workflow() -> Place | None:
    """Return the workflow, unless it belongs to another repository."""
    repository = os.environ.get("GITHUB_REPOSITORY", "") + "/"
    path, _, ref = os.environ.get("GITHUB_WORKFLOW_REF", "").partition("@")
    return (path.removeprefix(repository), 1) if ref and path.startswith(repository) else None


def _pin(repository: Path, engine: str, version: str | None) -> Place | None:
    """Return the first line that names a package of the engine, if possible with this version."""
    places = [(not (version and version in line), place) for place, line in _naming(repository, engine)]
    return min(places, key=lambda ranked: ranked[0])[1] if places else None


@cache
def _naming(repository: Path, engine: str) -> tuple[tuple[Place, str], ...]:
    """Return the lines that name a package of the engine."""
    if engine not in engine_names():  # reports are read from files too
        return ()
    published = load_contract(engine).published
    names = "|".join(re.escape(source.package) for source in (published.npm, published.pypi) if source)
    return tuple(_lines(repository, re.compile(rf"(?<![\w@/.-])({names})(?![\w/.-])"))) if names else ()


def _lines(repository: Path, wanted: re.Pattern[str]) -> Iterator[tuple[Place, str]]:
    for file in _pin_files(repository):
        try:
            text = file.read_text("utf-8", errors="replace") if file.stat().st_size <= MOST_BYTES else ""
        except OSError:
            continue
        for number, line in enumerate(text.splitlines(), 1):
            if wanted.search(line):
                yield (file.relative_to(repository).as_posix(), number), line


@cache
def _pin_files(repository: Path) -> tuple[Path, ...]:
    """List the files that may pin a package, top-level ones first, without installed packages."""
    files: list[Path] = []
    for name, folders, names in os.walk(repository):
        folder = Path(name)
        deepest = len(folder.relative_to(repository).parts) >= MOST_DEPTH
        folders[:] = [] if deepest else [sub for sub in folders if sub not in INSTALLED and not sub.startswith(".")]
        files += [folder / name for name in names if PINS.fullmatch(name)]
    return tuple(sorted(files, key=lambda file: (len(file.parts), file)))
