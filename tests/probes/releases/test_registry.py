"""What every kind of registry guarantees."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

import pytest
from msgspec import field

from turngate.errors import MachineError
from turngate_probes.releases.cache import MARKER, evict, home_of, in_use
from turngate_probes.releases.registry import Installed, Registry


class PlainRegistry(Registry, frozen=True):
    """A registry that installs an executable and claims the given integrity."""

    name, title = "npm", "npm"
    engine: str = "codex"
    package: str = "@vendor/codex"
    executables: tuple[str, ...] = ("engine",)
    integrity: Mapping[str, str] = field(default_factory=dict)
    filled: str = "sha512-a"

    def listed(self, stop: Any) -> Self:
        """Return this registry."""
        return self

    def exact(self, version: str, stop: Any) -> str:
        """Return the version."""
        return version

    def pin(self, version: str, integrity: str, stop: Any) -> dict[str, str]:
        """Return no files."""
        return {}

    def _fill(self, version: str, folder: Path, stop: Any, *, lean: bool) -> str:
        (folder / "engine").write_text("x")
        return self.filled

    def _executable(self, root: Path) -> Path | None:
        return next((root / name for name in self.executables if (root / name).exists()), None)


def promising(integrity: str, filled: str) -> PlainRegistry:
    """Make a registry that claims one checksum and delivers another content."""
    return PlainRegistry(integrity={"1.0.0": integrity}, filled=filled)


@pytest.fixture(name="cache", autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a separate cache for each test."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path))
    return tmp_path


def install(registry: Registry, said: list[str]) -> Installed:
    """Install the release."""
    return registry.install("1.0.0", said.append)


def test_an_entry_counts_by_its_integrity() -> None:
    """A cached entry whose integrity differs from the expected one is installed again."""
    said: list[str] = []
    install(PlainRegistry(), said)
    assert install(promising("sha512-a", "unused"), said).integrity == "sha512-a"
    assert install(promising("sha512-b", "sha512-b"), said).integrity == "sha512-b"
    assert said == ["codex 1.0.0: installing from npm"] * 2


@pytest.mark.parametrize(
    "registry, what",
    [
        (promising("sha512-b", "sha512-a"), "differs from what npm published"),
        (PlainRegistry(executables=()), "installs no executable"),
    ],
)
def test_what_is_not_in_order_is_not_kept(cache: Path, registry: Registry, what: str) -> None:
    """A release that doesn't match its integrity is not kept, not even in part."""
    with pytest.raises(MachineError, match=what):
        install(registry, [])
    assert [path.name for path in home_of("codex", cache).iterdir() if not path.name.endswith(".lock")] == []


def test_an_entry_in_use_is_not_evicted_by_another() -> None:
    """Several users may share an entry. It is removed only after the last one is done, and can be installed again."""
    root = install(PlainRegistry(), []).root
    with in_use(root):
        with in_use(root):
            assert not evict(root)
        assert not evict(root)
    assert evict(root)
    assert not (root / MARKER).exists()
    assert install(PlainRegistry(), []).executable.exists()
