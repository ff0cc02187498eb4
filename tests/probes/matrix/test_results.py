"""Which results count when a merge finds several for one release."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.probes.matrix.conftest import Shop, verdicts


def altered(plan: Path, **changed: object) -> None:
    """Change fields of a plan on disk."""
    plan.write_text(json.dumps(json.loads(plan.read_text()) | changed))


def merged(shop: Shop, *folders: Path) -> Any:
    """Merge folders and return the report."""
    _, report = shop.run("matrix", "--merge", *(folders or (shop.folder / "results",)))
    assert report is not None, shop.err
    return report


def named(folder: Path, *names: str) -> None:
    """Rename the plans of a folder, so that they are read in this order."""
    plans = sorted(folder.glob("plan-*.json"), key=lambda path: json.loads(path.read_text())["at"])
    for name, plan in zip(names, plans, strict=True):
        plan.rename(folder / f"plan-{name}.json")


@pytest.mark.long
@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_of_two_answers_of_one_release_the_newer_one_counts(
    shop: Shop, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a release's content changed, its newer result counts, whatever the files are called."""
    results = shop.folder / "results"
    shop.matrix("0.160.0")
    shop.faults("0.160.0", "no-version")
    shutil.rmtree(shop.root("0.160.0"))
    monkeypatch.setattr("turngate_probes.matrix.results.Registry.identity", lambda _, version: f"republished {version}")
    assert verdicts(shop.matrix("0.160.0")[1]) == {"0.160.0": "broken"}
    named(results, *names)
    assert verdicts(merged(shop)) == {"0.160.0": "broken"}


@pytest.mark.long
@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_an_older_answer_does_not_stand_for_one_that_is_missing_now(
    shop: Shop, names: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A result of older content does not replace a missing result of newer content."""
    first, second = shop.folder / "first", shop.folder / "second"
    shop.matrix("0.160.0", "--results", first)
    monkeypatch.setattr("turngate_probes.matrix.results.Registry.identity", lambda _, version: f"republished {version}")
    shop.faults("0.160.0", "no-version")
    shop.matrix("0.160.0", "--results", second)
    for answer in second.glob("codex@*.ndjson"):
        answer.unlink()
    folders = (first, second) if names == ("a", "b") else (second, first)
    assert verdicts(merged(shop, *folders)) == {"0.160.0": "unanswered"}


@pytest.mark.long
def test_releases_of_an_earlier_order_are_left_out(shop: Shop) -> None:
    """Only the releases of a folder's last run are merged."""
    shop.matrix("0.160.0,0.161.0")
    shop.matrix("0.162.0")
    assert list(verdicts(merged(shop))) == ["0.162.0"]


@pytest.mark.long
def test_shards_in_one_folder_are_all_joined(shop: Shop) -> None:
    """The newest plan of each shard is merged, from all folders."""
    shop.matrix("all", "--shard", "1/2")
    shop.matrix("all", "--shard", "2/2")
    shop.matrix("0.162.0-beta", "--results", shop.folder / "other")
    report = merged(shop, shop.folder / "results", shop.folder / "other")
    assert set(verdicts(report).values()) == {"compatible"}
    assert list(verdicts(report)) == ["0.160.0", "0.161.0", "0.162.0-beta", "0.162.0", "0.163.0"]


@pytest.mark.long
@pytest.mark.parametrize(
    "changed, what",
    [
        ({"turngate": "0.0.1"}, "the shards come from different versions of turngate: 0.0.1, "),
        ({"contract_version": "0.9"}, "the shards used different contracts of codex: 0.9, "),
    ],
)
def test_shards_of_different_turngates_or_contracts_are_refused(shop: Shop, changed: dict[str, str], what: str) -> None:
    """Shards from different turngate or contract versions can't be merged."""
    folders = [shop.folder / "first", shop.folder / "second"]
    for i, folder in enumerate(folders):
        shop.matrix("0.160.0,0.161.0", "--shard", f"{i + 1}/2", "--results", folder)
    (plan,) = folders[0].glob("plan-*.json")
    altered(plan, **changed)
    assert shop.run("matrix", "--merge", *folders) == (2, None)
    assert what in shop.err
    assert "run the older ones again" in shop.err
