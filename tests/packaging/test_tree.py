"""What no file of the project may say: where packages come from, and where it lies on some machine."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
SHIPPED = (".ci", ".github", "contracts", "docs", "fixtures", "probes", "reference", "requirements", "tests")

HOSTS = re.compile(r"registry\.(npmjs|yarnpkg|npmmirror)\.|pypi\.org|pythonhosted\.org")
# npm keeps a package's address under this key
ADDRESS = re.compile(r'"resolved": *"https?:')


def files() -> list[Path]:
    """List every file of the project that is kept."""
    kept = [file for folder in SHIPPED for file in (ROOT / folder).rglob("*")] + list(ROOT.glob("*"))
    return [file for file in kept if file.is_file() and "__pycache__" not in file.parts]


def text(file: Path) -> str:
    """Read a file, whatever it holds."""
    return file.read_text("utf-8", errors="replace")


def test_no_file_names_a_package_registry() -> None:
    """Every registry is `<package-registry>`, in locks and in evidence too."""
    naming = [file for file in files() if HOSTS.search(text(file)) or ADDRESS.search(text(file))]
    assert naming == []


def test_no_file_names_a_place_of_this_machine() -> None:
    """Neither the checkout's own path nor the home directory stands in a file."""
    places = [f"{place}/" for place in (ROOT, Path.home()) if place != Path("/")]
    naming = [file for file in files() if any(place in text(file) for place in places)]
    assert naming == []


def test_readme_names_only_targets_that_make_has() -> None:
    """Each `make` target that the README names is in the Makefile."""
    named = set(re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text()))
    assert named
    assert named <= set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
