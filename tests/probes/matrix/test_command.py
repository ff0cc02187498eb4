"""The matrix commands on a fake registry: selection, shards, merging and invalid input."""

import json
from pathlib import Path

import pytest

from tests.probes.matrix.conftest import Shop, verdicts
from turngate import cli
from turngate.contract.load import first_error


def test_an_unreachable_registry_is_told_before_anything_is_probed(shop: Shop) -> None:
    """An unreachable registry ends with exit code 2 before anything is probed."""
    shop.fails("view", "ENOTFOUND")
    assert shop.matrix("all") == (2, None)
    assert "the package registry cannot be reached" in shop.err


def test_a_list_of_releases_that_is_not_from_today_is_told(shop: Shop) -> None:
    """If npm answers from its cache because it reached no registry, a matrix and a bisection say so."""
    (shop.folder / "says-view").write_text("npm http fetch GET 200 address 9ms (cache stale)\n")
    shop.matrix("0.163.0")
    assert "npm could not be reached" in shop.err
    shop.run("bisect", "codex", "version.readable", "--good", "0.163.0", "--bad", "0.163.0")
    assert "npm could not be reached" in shop.err


def test_what_an_unreachable_registry_may_have_is_not_said_to_be_missing(shop: Shop) -> None:
    """If npm answers from its cache, a release that is not there may have been published since."""
    (shop.folder / "says-view").write_text("npm http fetch GET 200 address 9ms (cache stale)\n")
    for command in (("matrix", "codex", "--versions", "0.164.0"), ("gate", "codex@0.164.0", "--from", "codex@0.163.0")):
        assert shop.run(*command) == (2, None)
        assert "@openai/codex 0.164.0 is not among the releases known here: npm could not be reached" in shop.err
        assert "try again when npm can be reached, or choose a known one: 0.163.0" in shop.err


@pytest.mark.long
def test_shards_are_joined(shop: Shop) -> None:
    """The planned shards together probe all releases, and merge into one report."""
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


@pytest.mark.long
def test_a_lost_shard_is_not_taken_for_a_pass(shop: Shop) -> None:
    """Releases of a missing shard are unanswered."""
    shop.matrix("all", "--shard", "1/2")
    code, report = shop.run("matrix", "--merge", shop.folder / "results")
    assert code == 2
    assert verdicts(report) == {
        "0.160.0": "compatible",
        "0.161.0": "unanswered",
        "0.162.0": "compatible",
        "0.163.0": "unanswered",
    }
    assert "not probed" in report["releases"][1]["failed"]["what"]


@pytest.mark.long
def test_shards_of_different_questions_are_not_joined(shop: Shop) -> None:
    """Folders with different clauses, without results or with an invalid plan can't be merged."""
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
    """Each invalid argument has its own message and exit code 2."""
    assert shop.run("matrix", "codex", *args, "--results", shop.folder / "results") == (2, None)
    assert what in shop.err


def test_an_engine_that_is_published_nowhere_is_told(shop: Shop) -> None:
    """A withdrawn engine, or a release instead of an engine, is rejected."""
    assert shop.run("matrix", "iflow", "--versions", "all") == (2, None)
    assert "turngate can't install iflow" in shop.err
    assert shop.run("matrix", "codex@0.160.0", "--versions", "all") == (2, None)
    assert "not just an engine" in shop.err


def test_an_engine_whose_contract_names_no_package_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A probe and a gate say that the engine can't be installed, and what to do, and name no registry."""
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path))
    for asked in (["probe", "kimi@1.44.0"], ["gate", "kimi@1.44.0", "--from", "kimi@1.43.0"]):
        assert cli.run(asked) == 2
        told = capsys.readouterr()
        assert "turngate can't install kimi: its contract names no package" in told.out + told.err
        assert "Install kimi-cli yourself" in told.out + told.err
        assert "npm" not in told.out + told.err


def test_no_shard_is_planned_for_nothing(shop: Shop) -> None:
    """There are no more shards than releases."""
    code, include = shop.run("matrix", "codex", "--versions", "latest:2", "--plan", "github", "--shards", "5")
    assert (code, [entry["shard"] for entry in include]) == (0, ["1/2", "2/2"])


def test_a_pipe_gets_the_plan_as_json(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    """The plan is JSON; by default there is one shard per ten releases."""
    _, include = shop.run("matrix", "codex", "--versions", "latest:2", "--plan", "github")
    job = {"engine": "codex", "versions": "0.162.0,0.163.0", "registry": "npm", "shard": "1/1"}
    assert include == [job]
    assert json.dumps(include)
    assert not Path(shop.folder / "results").exists()


def test_a_release_in_place_of_an_engine_is_answered_with_the_options_of_the_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Each of both commands has its own."""
    for words, options in (
        (["bisect", "codex@0.120.0", "stdin.open"], "--good or --bad"),
        (["matrix", "codex@0.120.0", "--versions", "all"], "--versions"),
    ):
        assert cli.run(words) == 2
        assert f"pass versions with {options}\n" in capsys.readouterr().err
