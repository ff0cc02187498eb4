"""What the cache promises, whatever fills it."""

from pathlib import Path

import pytest

from turngate.errors import EnvironmentFailed
from turngate_probes.releases.cache import MARKER, Recipe, evict, home_of, in_use, place


def recipe(promised: str | None = None, integrity: str = "sha512-a", *, executable: bool = True) -> Recipe:
    """Fill a folder with an executable and say that it has this integrity."""

    def fill(folder: Path) -> str:
        (folder / "engine").write_text("x")
        return integrity

    return Recipe(
        "codex", "1.0.0", "@vendor/codex", "npm", "1.0.0", fill,
        lambda root: root / "engine" if executable and (root / "engine").exists() else None,
        lambda: EnvironmentFailed("no executable"), promised,
    )  # fmt: skip


def test_an_entry_counts_by_its_integrity(tmp_path: Path) -> None:
    """What is there with another content than was promised is installed anew."""
    said: list[str] = []
    place(recipe(), tmp_path, said.append)
    assert place(recipe("sha512-a", "unused"), tmp_path, said.append).integrity == "sha512-a"
    assert place(recipe("sha512-b", "sha512-b"), tmp_path, said.append).integrity == "sha512-b"
    assert said == ["codex 1.0.0: installing from npm"] * 2


@pytest.mark.parametrize(
    "how, what", [(recipe("sha512-b"), "is not what npm published"), (recipe(executable=False), "no executable")]
)
def test_what_is_not_in_order_is_not_kept(tmp_path: Path, how: Recipe, what: str) -> None:
    """Neither a whole entry nor half of one stays behind."""
    with pytest.raises(EnvironmentFailed, match=what):
        place(how, tmp_path, print)
    assert [each.name for each in home_of("codex", tmp_path).iterdir() if not each.name.endswith(".lock")] == []


def test_an_entry_in_use_is_not_evicted_by_another(tmp_path: Path) -> None:
    """Several may use an entry; only when the last has ended it goes, and can be installed again."""
    root = place(recipe(), tmp_path, print).root
    with in_use(root):
        with in_use(root):
            assert not evict(root)
        assert not evict(root)
    assert evict(root)
    assert not (root / MARKER).exists()
    assert place(recipe(), tmp_path, print).executable.exists()
