"""The pin files: exact, with checksums, without addresses, and one for each engine in a registry."""

import json
from pathlib import Path
from typing import Any

import pytest
from semver import Version

from tests.tables import each
from turngate.contract import load
from turngate.errors import ContractError
from turngate.files import use_overlay
from turngate_probes.releases.npm import check_integrity
from turngate_probes.releases.pins import PINS, REQUIREMENTS, pinned_version, pinned_wheels
from turngate_probes.releases.source import default_registry

PINNED = sorted(path.name for path in PINS.iterdir() if path.is_dir())


def lock(engine: str) -> dict[str, Any]:
    """Read an engine's lock."""
    return dict(json.loads((PINS / engine / "package-lock.json").read_text()))


@each("engine", PINNED)
def test_pin_names_one_exact_version(engine: str) -> None:
    """A pin is one package at an exact version."""
    assert Version.is_valid(str(pinned_version(engine)))


@each("engine", PINNED)
def test_pin_is_checkable_and_names_no_registry(engine: str) -> None:
    """Every package of a pin has an exact version and a checksum, and no address."""
    requirements = PINS / engine / REQUIREMENTS
    if requirements.exists():
        text = requirements.read_text()
        packages = text.replace("\\\n", "").splitlines()
        assert packages
        assert all("==" in package and "--hash=sha256:" in package for package in packages)
        assert "//" not in text
    else:
        check_integrity(lock(engine)["packages"], {})
        assert not [place for place, entry in lock(engine)["packages"].items() if "resolved" in entry]
        ((package, _),) = lock(engine)["packages"][""]["dependencies"].items()
        assert lock(engine)["packages"][f"node_modules/{package}"]["version"] == pinned_version(engine)


@each("engine", load.engine_names())
def test_every_engine_in_a_registry_is_pinned(engine: str) -> None:
    """An engine in a registry that is not withdrawn has a pin of its own package."""
    registry = default_registry(engine)
    if registry is None or load.contract(engine).at().lifecycle.status == "sealed":
        assert engine not in PINNED
    elif registry.name == "npm":
        assert set(lock(engine)["packages"][""]["dependencies"]) == {registry.package}
    else:
        assert (PINS / engine / REQUIREMENTS).read_text().startswith(f"{registry.package}==")


@each(
    "name, text",
    [
        ("package.json", "{"),
        ("package.json", "[" * 100_000),
        ("package.json", "[]"),
        ("package.json", '{"dependencies": {}}'),
        ("package.json", '{"dependencies": {"a": "1.0.0", "b": "1.0.0"}}'),
        ("package.json", '{"dependencies": {"a": "../../1.0.0"}}'),
        ("package.json", "{}" + " " * 5_000_000),
        ("requirements.txt", "#" * 5_000_000),
    ],
)
def test_a_wrong_pin_is_refused_with_its_file(tmp_path: Path, name: str, text: str) -> None:
    """A pin of the user that is broken, too long or leads elsewhere is a contract error that names the file."""
    pin = tmp_path / "pins/acme" / name
    pin.parent.mkdir(parents=True)
    pin.write_text(text)
    use_overlay(tmp_path)
    with pytest.raises(ContractError) as raised:
        pinned_version("acme")
    assert str(raised.value).startswith(f"{pin}:1:1: ")


def test_a_pin_for_pypi_is_read(tmp_path: Path) -> None:
    """The first requirement is the release; comments and options around it don't matter."""
    assert pinned_version("no-such-engine") is None
    assert pinned_wheels("no-such-engine") == (None, frozenset())
    pin = tmp_path / "pins/acme" / REQUIREMENTS
    pin.parent.mkdir(parents=True)
    pin.write_text(
        f"# made by hand\n--only-binary=:all:\nacme-cli==1.2 \\\n    --hash=sha256:{'0' * 64} \\\n"
        f"    --hash=sha256:{'1' * 64}\nhelp==3.0 --hash=sha256:{'2' * 64}\n"
    )
    use_overlay(tmp_path)
    assert pinned_wheels("acme") == ("1.2", frozenset({"0" * 64, "1" * 64}))
    pin.write_text("acme-cli==1.2.0\n")
    assert pinned_wheels("acme") == ("1.2.0", frozenset())
    assert pinned_version("acme") == "1.2.0"
