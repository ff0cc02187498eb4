"""What no file may contain: registry addresses and paths of a machine; and where tests belong."""

import ast
import re
from pathlib import Path

import pytest

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
    """Read a file as text, whatever its bytes."""
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


LONGEST = 300
PACKAGES = {
    "contracts": ROOT / "contracts" / "turngate",
    "probes": ROOT / "probes" / "turngate_probes",
    "reference": ROOT / "reference" / "turngate_reference",
}


def has_function(module: Path) -> bool:
    """Whether a module defines a function or a method."""
    return any(isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) for node in ast.walk(ast.parse(text(module))))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_module_with_a_function_has_tests_of_its_name(package: str) -> None:
    """The tests of `probes/turngate_probes/report/build.py` are in `tests/probes/report/test_build.py`."""
    root, tests = PACKAGES[package], ROOT / "tests" / package
    modules = [module for module in root.rglob("*.py") if module.stem != "__init__" and has_function(module)]
    places = [module.relative_to(root).with_name(f"test_{module.name}") for module in modules]
    assert sorted(str(place) for place in places if not (tests / place).exists()) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_test_file_names_a_module_or_a_folder(package: str) -> None:
    """A reader who sees a test file knows what it tests."""
    root, tests = PACKAGES[package], ROOT / "tests" / package
    places = [file.relative_to(tests) for file in tests.rglob("test_*.py")]
    named = [(place, root / place.with_name(place.stem.removeprefix("test_"))) for place in places]
    nameless = [place for place, name in named if not (name.is_dir() or name.with_suffix(".py").exists())]
    assert sorted(map(str, nameless)) == []


def test_no_module_is_longer_than_300_lines() -> None:
    """A longer one has more than one reason to change."""
    modules = [module for root in PACKAGES.values() for module in root.rglob("*.py")]
    assert [str(module.relative_to(ROOT)) for module in modules if len(text(module).splitlines()) > LONGEST] == []
