"""No file contains registry addresses or local paths, and tests are where they belong."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHIPPED = (".ci", ".github", "contracts", "docs", "fixtures", "probes", "reference", "requirements", "tests")
AT_THE_TOP = (".*", "*.md", "*.toml", "*.yml", "LICENSE", "Makefile")

HOSTS = re.compile(r"registry\.(npmjs|yarnpkg|npmmirror)\.|pypi\.org|pythonhosted\.org")
# the key of a package's address in npm's lock files
ADDRESS = re.compile(r'"resolved": *"https?:')


def files() -> list[Path]:
    """List every file of the project; what else lies beside them, such as a log of a probe, is its user's."""
    kept = [file for folder in SHIPPED for file in (ROOT / folder).rglob("*")]
    kept += [file for pattern in AT_THE_TOP for file in ROOT.glob(pattern)]
    return [file for file in kept if file.is_file() and "__pycache__" not in file.parts]


def text(file: Path) -> str:
    """Read a file as text, whatever its bytes."""
    return file.read_text("utf-8", errors="replace")


def test_no_file_names_a_package_registry() -> None:
    """Files write every registry as `<package-registry>`, lock files and evidence included."""
    naming = [file for file in files() if HOSTS.search(text(file)) or ADDRESS.search(text(file))]
    assert naming == []


def test_no_file_names_a_place_of_this_machine() -> None:
    """No file contains the checkout's path or the home directory."""
    places = [f"{place}/" for place in (ROOT, Path.home()) if place != Path("/")]
    naming = [file for file in files() if any(place in text(file) for place in places)]
    assert naming == []


def test_readme_names_only_targets_that_make_has() -> None:
    """Each `make` target in the README is in the Makefile."""
    named = set(re.findall(r"make ([a-z]+)", (ROOT / "README.md").read_text()))
    assert named
    assert named <= set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))


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
    """`report/build.py` has its tests in `test_build.py` of the same folder, or in a folder `build`."""
    root, tests = PACKAGES[package], ROOT / "tests" / package
    modules = [module for module in root.rglob("*.py") if module.stem != "__init__" and has_function(module)]
    named = [(module, tests / module.relative_to(root).with_suffix("")) for module in modules]
    untested = [
        str(module)
        for module, name in named
        if not name.with_name(f"test_{name.name}.py").exists() and not any(name.glob("test_*.py"))
    ]
    assert sorted(untested) == []


@pytest.mark.parametrize("package", PACKAGES)
def test_every_test_file_names_a_module_or_a_folder(package: str) -> None:
    """Each test file is named after a module or a folder, or is in a folder named after a module."""
    root, tests = PACKAGES[package], ROOT / "tests" / package
    places = [file.relative_to(tests) for file in tests.rglob("test_*.py")]
    named = [(place, root / place.with_name(place.stem.removeprefix("test_"))) for place in places]
    nameless = [
        place
        for place, name in named
        if not (name.is_dir() or name.with_suffix(".py").exists() or name.parent.with_suffix(".py").exists())
    ]
    assert sorted(map(str, nameless)) == []
