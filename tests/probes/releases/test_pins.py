"""The pin files: exact, with checksums, without addresses, and one for each engine on npm."""

import json
from importlib.resources import files
from typing import Any

import pytest
from semver import Version

from turngate.contract import load
from turngate_probes.releases.npm import check_integrity, pinned_version

PINS = files("turngate_probes.releases") / "pins"
PINNED = sorted(path.name for path in PINS.iterdir() if path.is_dir())


def lock(engine: str) -> dict[str, Any]:
    """Read an engine's lock."""
    return dict(json.loads((PINS / engine / "package-lock.json").read_text()))


@pytest.mark.parametrize("engine", PINNED)
def test_pin_names_one_exact_version(engine: str) -> None:
    """A pin is one package at an exact version, which its lock file has too."""
    version = pinned_version(engine)
    assert version
    assert Version.is_valid(version)
    ((package, _),) = lock(engine)["packages"][""]["dependencies"].items()
    assert lock(engine)["packages"][f"node_modules/{package}"]["version"] == version


@pytest.mark.parametrize("engine", PINNED)
def test_pin_is_checkable_and_names_no_registry(engine: str) -> None:
    """Every package of a lock file has a sha512 and no address."""
    check_integrity(lock(engine)["packages"], {})
    assert not [place for place, entry in lock(engine)["packages"].items() if "resolved" in entry]


@pytest.mark.parametrize("engine", load.engine_names())
def test_every_engine_on_npm_is_pinned(engine: str) -> None:
    """An engine on npm that is not withdrawn has a pin of its own package."""
    contract = load.contract(engine).at()
    if contract.npm is None or contract.lifecycle.status == "sealed":
        assert engine not in PINNED
    else:
        assert engine in PINNED
        assert set(lock(engine)["packages"][""]["dependencies"]) == {contract.npm.package}
