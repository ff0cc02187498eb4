"""The first turn of a release: wrappers that break the sandbox are told apart from engines that do nothing."""

import sys
from pathlib import Path

import pytest

from tests.probes import engines
from turngate.contract.clauses import Reason, Result
from turngate_probes.harness import first_turn
from turngate_probes.harness.first_turn import FirstTurn
from turngate_probes.harness.interrupt import CaseStoppedError, Obstacle


def wrapped(folder: Path, *lines: str) -> Path:
    """Install the fake engine and a shell script with these lines before it; ENGINE is its path."""
    engine = engines.install(folder / "engine")
    path = folder / "codex"
    path.write_text("#!/bin/sh\n" + "\n".join(lines).replace("ENGINE", str(engine)) + "\n")
    path.chmod(0o755)
    return path


def obstacles(executable: Path, folder: Path) -> dict[str, Obstacle]:
    """Run the main case and another one, and return what stopped them."""
    return engines.play(executable, folder, "main", "auto").observed.stopped


@pytest.mark.long
def test_a_plain_wrapper_changes_nothing(tmp_path: Path) -> None:
    """Behind a wrapper that passes everything on, both cases run, and no canary file is left."""
    played = engines.play(wrapped(tmp_path, 'exec ENGINE "$@"'), tmp_path, "main", "auto")
    assert played.observed.stopped == {}
    assert {turn.exit_code for turn in played.observed.turns.values()} == {0}


@pytest.mark.parametrize("lines", [('cd / && exec ENGINE "$@"',), ("cd /", 'ENGINE "$@"'), ('(cd / && ENGINE "$@")',)])
def test_another_working_directory_stops_everything(lines: tuple[str, ...], tmp_path: Path) -> None:
    """If the wrapper changes the working directory, no case runs and no turn is judged."""
    played = engines.play(wrapped(tmp_path, *lines), tmp_path, "main", "auto", "static")
    stopped = played.observed.stopped
    assert {name: why.reason for name, why in stopped.items()} == dict.fromkeys(
        ("main", "auto", "static"), Reason.WRAPPER
    )
    assert stopped["main"].text == "the executable runs its engine in /, not in the directory in which it was started"
    assert (played.observed.turns, played.observed.pages) == ({}, {})


@pytest.mark.long
def test_a_refused_registry_is_no_fault_of_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If the wrapper fails because a registry was refused, its host is named, and nothing is judged."""
    monkeypatch.setattr(first_turn, "refused_registry", lambda hosts, *_output: next(iter(hosts), None))
    program = "import os, urllib.request as r; r.urlopen(r.Request('http://packages.acme.example/codex'))"
    stopped = obstacles(wrapped(tmp_path, f'exec {sys.executable} -c "{program}"'), tmp_path)
    assert {why.reason for why in stopped.values()} == {Reason.WRAPPER}
    assert "the package registry packages.acme.example" in stopped["main"].text
    assert "see Wrappers" in stopped["main"].hint


def test_an_engine_that_sends_nothing_is_broken_after_one_turn(tmp_path: Path) -> None:
    """Without a request for any other reason, one clause fails, the others need it, and pages are still tested."""
    played = engines.play(wrapped(tmp_path, "echo no licence >&2", "exit 3"), tmp_path, "main", "auto", "static")
    assert list(played.observed.turns) == ["main/first"]
    assert played.observed.stopped["auto"].text == "main/first sent no request to the model (exit code 3: no licence)"
    results = played.judged()
    assert results["turn.terminal-event"].result is Result.FAIL
    assert results["auto.flags-accepted"].needs == ("turn.terminal-event",)
    assert results["handle.present"].result is Result.NOT_RUN
    assert results["version.readable"].detail.startswith("the version query exited with 3")


@pytest.mark.long
@pytest.mark.parametrize("does", ["", 'exec ENGINE "$@"'])
def test_a_newer_node_is_wanted_only_by_a_release_that_sends_nothing(
    does: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its package asks for a newer Node.js than the one here: that stops everything, unless the release runs."""
    monkeypatch.setattr(first_turn, "node_version", lambda: "v20.20.2")
    (tmp_path / "package.json").write_text('{"engines": {"node": ">=22.19.0"}}')
    executable = wrapped(tmp_path, does, "echo no such builtin >&2; exit 1")
    stopped = engines.play(executable, tmp_path, "main", "auto", "static").observed.stopped
    assert {why.reason for why in stopped.values()} == (set() if does else {Reason.NO_EXECUTABLE})
    if not does:
        assert stopped["main"].text.startswith("the release needs Node.js 22.19.0 or newer, and doesn't start with")
        assert stopped["main"].text.endswith("no such builtin")
        assert "update Node.js" in stopped["main"].hint


def test_only_the_first_word_counts() -> None:
    """What the first turn has shown stays, and static cases are only stopped by a wrapper that breaks the sandbox."""
    first = FirstTurn()
    first.tell(Obstacle("it did nothing", by_engine=True))
    first.tell(None)
    first.check("static")
    with pytest.raises(CaseStoppedError, match="it did nothing"):
        first.check()
