"""The commands on a played registry: what is chosen, planned for shards and merged, and what is refused."""

import json
from pathlib import Path

import pytest

from tests.probes.matrix.conftest import Shop, verdicts
from turngate.contract.load import first_error


def test_an_unreachable_registry_is_told_before_anything_is_probed(shop: Shop) -> None:
    """Without the list of releases there is nothing to say, and the exit code is 2."""
    shop.fails("view", "ENOTFOUND")
    assert shop.matrix("all") == (2, None)
    assert "the package registry cannot be reached" in shop.err


@pytest.mark.long
def test_shards_are_joined(shop: Shop) -> None:
    """Shards planned for a job matrix probe all releases between them, and merge into one report."""
    code, include = shop.run("matrix", "codex", "--versions", "all", "--plan", "github", "--shards", "2")
    assert code == 0
    assert [entry["shard"] for entry in include] == ["1/2", "2/2"]
    folders = [shop.folder / f"shard-{i}" for i in range(2)]
    for entry, folder in zip(include, folders, strict=True):
        _, part = shop.matrix(entry["versions"], "--shard", entry["shard"], "--results", folder)
        assert len(part["releases"]) == 2
    code, report = shop.run("matrix", "--merge", *folders)
    assert code == 0
    assert list(verdicts(report)) == ["0.160.0", "0.161.0", "0.162.0", "0.163.0"]
    assert first_error("probe-report", report) is None
    assert report["engine_seconds"] > 0


def test_a_lost_shard_is_not_taken_for_a_pass(shop: Shop) -> None:
    """What a shard that left nothing was to probe is unanswered."""
    shop.matrix("all", "--shard", "1/2")
    code, report = shop.run("matrix", "--merge", shop.folder / "results")
    assert code == 2
    assert verdicts(report) == {
        "0.160.0": "compatible", "0.161.0": "unanswered", "0.162.0": "compatible", "0.163.0": "unanswered",
    }  # fmt: skip
    assert "not probed" in report["releases"][1]["failed"]["what"]


@pytest.mark.long
def test_shards_of_different_questions_are_not_joined(shop: Shop) -> None:
    """Results of other clauses don't fit together, and a folder without any is refused."""
    shop.matrix("0.160.0")
    shop.matrix("0.161.0", "--clause", "version.readable", "--results", shop.folder / "other")
    assert shop.run("matrix", "--merge", shop.folder / "results", shop.folder / "other") == (2, None)
    assert "different levels or clauses" in shop.err
    assert shop.run("matrix", "--merge", shop.folder) == (2, None)
    assert "has no matrix results" in shop.err
    (shop.folder / "results/plan-1.json").write_text("{}")
    assert shop.run("matrix", "--merge", shop.folder / "results") == (2, None)
    assert "can't read the plan" in shop.err


@pytest.mark.parametrize(
    "args, what",
    [
        (("--versions", "newest"), "does not select versions"),
        (("--versions", ">=9"), "no published release"),
        (("--versions", "all", "--shard", "3/2"), "is not a shard"),
        (("--versions", "0.160.0", "--shard", "2/2"), "is empty"),
        (("--versions", "all", "--cache-limit", "much"), "is not a size"),
        (("--versions", "all", "--clause", "resume.acepted"), "resume.accepted"),
        ((), "--versions"),
    ],
)
def test_bad_input_is_told(shop: Shop, args: tuple[str, ...], what: str) -> None:
    """Each mistake has its message, and exit code 2."""
    assert shop.run("matrix", "codex", *args, "--results", shop.folder / "results") == (2, None)
    assert what in shop.err


def test_an_engine_that_is_published_nowhere_is_told(shop: Shop) -> None:
    """A withdrawn engine has no releases to choose from, and a release is no engine."""
    assert shop.run("matrix", "iflow", "--versions", "all") == (2, None)
    assert "no release of iflow is published" in shop.err
    assert shop.run("matrix", "codex@0.160.0", "--versions", "all") == (2, None)
    assert "not just an engine" in shop.err


def test_no_shard_is_planned_for_nothing(shop: Shop) -> None:
    """Two releases are two shards at most, however many were asked for."""
    code, include = shop.run("matrix", "codex", "--versions", "latest:2", "--plan", "github", "--shards", "5")
    assert (code, [entry["shard"] for entry in include]) == (0, ["1/2", "2/2"])


def test_a_pipe_gets_the_plan_as_json(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a number of shards there is one for ten releases."""
    _, include = shop.run("matrix", "codex", "--versions", "latest:2", "--plan", "github")
    job = {"engine": "codex", "versions": "0.162.0,0.163.0", "registry": "npm", "shard": "1/1"}
    assert include == [job]
    assert json.dumps(include)
    assert not Path(shop.folder / "results").exists()
