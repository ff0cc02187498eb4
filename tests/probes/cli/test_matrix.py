"""The commands `matrix` and `bisect`; what they do is tested with their modules."""

import json
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.tables import each
from turngate import cli
from turngate_probes.matrix import command
from turngate_probes.releases.source import registries


@each(
    "args, message",
    [
        (("matrix", "codex"), "pass one ENGINE with --versions"),
        (("matrix", "codex", "gemini", "--versions", "all"), "pass one ENGINE with --versions"),
        (("matrix", "codex@0.169.0", "--versions", "all"), "is not just an engine"),
        (("matrix", "codex", "--versions", "all", "--clause", "no.such"), "no.such"),
        (("bisect", "codex", "no.such"), "no.such"),
        (("bisect", "codex"), "Missing argument 'CLAUSE'"),
    ],
)
def test_a_wrong_question_is_refused_before_anything_runs(
    args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Invalid arguments end with exit code 2 before anything runs."""
    assert cli.run(args) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("count, more, shards", [(25, (), 3), (25, ("--shards", "2"), 2), (2, ("--shards", "9"), 2)])
def test_a_plan_names_every_shard(
    count: int, more: tuple[str, ...], shards: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The plan lists every shard with all versions and the registry; there are no more shards than releases."""
    versions = tuple(f"0.{number}.0" for number in range(count))
    monkeypatch.setattr(command, "choose", lambda engine, _, name: (registries(engine)[name], versions))
    assert cli.run(["matrix", "codex", "--versions", "all", "--plan", "github", "--registry", "pypi", *more]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert [entry["shard"] for entry in listed] == [f"{number}/{shards}" for number in range(1, shards + 1)]
    same = {(entry["engine"], entry["versions"], entry["registry"]) for entry in listed}
    assert same == {("codex", ",".join(versions), "pypi")}


def test_what_was_asked_is_handed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A bisection tests only its clause, at that clause's level; a matrix tests all clauses of its level."""
    searched, probed = Mock(return_value=0), Mock(return_value=1)
    monkeypatch.setattr(command, "run_bisection", searched)
    monkeypatch.setattr(command, "run_matrix", probed)
    options = ("--results", str(tmp_path), "--cache-limit", "2GB", "--jobs", "3")
    assert cli.run(["bisect", "codex", "resume.accepted", "--good", "0.1.0", "--bad", "0.2.0", *options]) == 0
    assert cli.run(["matrix", "codex", "--versions", "latest:2", "--level", "static", "--strict", *options]) == 1
    engine, settings, *rest, _ = searched.call_args.args
    assert (engine, *rest) == ("codex", "resume.accepted", "0.1.0", "0.2.0")
    assert (settings.probe.clauses, settings.probe.level) == (("resume.accepted",), "hermetic")
    engine, settings, spec, shard, output = probed.call_args.args
    assert (engine, spec, shard, output.as_json, output.reports) == ("codex", "latest:2", "1/1", False, ())
    assert (settings.folder, settings.probe.jobs, settings.probe.level, settings.probe.fail_on) == (
        tmp_path,
        3,
        "static",
        "degraded",
    )


def test_the_folder_of_a_shard_must_hold_results(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Merging an empty folder ends with exit code 2."""
    assert cli.run(["matrix", "--merge", str(tmp_path)]) == 2
    assert capsys.readouterr().err
