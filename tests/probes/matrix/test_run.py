"""Probing many releases of a fake registry: outcomes, restarts, cache limits and shared folders."""

import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import namedtuple
from contextlib import suppress
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.acceptance.command import Command
from tests.fakes.daemon import left, noted, tidied
from tests.probes.fake_npm import integrity
from tests.probes.matrix.conftest import Shop, verdicts
from turngate.contract.clauses import Reason
from turngate.contract.load import first_error
from turngate.files import contract_files
from turngate_probes.clauses import CHECKS
from turngate_probes.harness.observations import NotObservedError
from turngate_probes.matrix import run as run_module
from turngate_probes.matrix.results import alone
from turngate_probes.releases.cache import in_use

Usage = namedtuple("Usage", "total used free")  # noqa: PYI024 - as shutil's


@pytest.mark.long
def test_all_releases_are_probed_and_reported_oldest_first(shop: Shop) -> None:
    """Every release except pre-releases has a verdict, and the report states the peak usage."""
    code, report = shop.matrix("all")
    assert code == 0
    assert list(verdicts(report).items()) == [(v, "compatible") for v in ("0.160.0", "0.161.0", "0.162.0", "0.163.0")]
    assert first_error("probe-report", report) is None
    assert report["peak_usage"]["cache_bytes"] > 0
    assert report["peak_usage"]["memory_bytes"] > 2**20
    assert report["releases"][0]["integrity"] == integrity("0.160.0")
    assert "peak usage" in shop.err
    assert "4 of 4 releases done, 0 running, 0 left" in shop.err


@pytest.mark.long
def test_what_was_answered_is_not_asked_again(shop: Shop) -> None:
    """A second run reuses earlier results and probes only new releases."""
    shop.matrix("0.160.0,0.161.0")
    assert len(shop.installed()) == 2
    code, report = shop.matrix("all")
    assert code == 0
    assert len(shop.installed()) == 4
    assert set(verdicts(report).values()) == {"compatible"}
    assert "2 of them earlier" in shop.err


@pytest.mark.long
def test_another_question_or_contract_is_asked_anew(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Results are reused only for the same clauses and the same turngate version."""
    shop.matrix("0.160.0")
    shop.matrix("0.160.0", "--clause", "version.readable")
    assert "0 running, 0 left" in shop.err
    assert "earlier" not in shop.err
    monkeypatch.setattr("turngate_probes.matrix.results.metadata.version", lambda _: "99")
    shop.matrix("0.160.0")
    assert "earlier" not in shop.err


@pytest.mark.long
def test_a_killed_run_goes_on_where_it_was(shop: Shop) -> None:
    """A partly written result of a killed run is not reused."""
    shop.matrix("0.160.0")
    results = shop.folder / "results"
    (answer,) = results.glob("codex@*.ndjson")
    half = answer.read_bytes()[:400]
    answer.with_suffix(".part").write_bytes(half)
    answer.unlink()
    assert verdicts(shop.matrix("0.160.0")[1]) == {"0.160.0": "compatible"}
    assert not list(results.glob("*.part"))


@pytest.mark.long
def test_a_broken_release_is_told_and_the_others_are_probed(shop: Shop) -> None:
    """A release without a version is broken, and the others are still probed."""
    shop.faults("0.161.0", "no-version")
    code, report = shop.matrix("all")
    assert code == 1
    assert [version for version, verdict in verdicts(report).items() if verdict == "broken"] == ["0.161.0"]


def test_a_release_that_crashes_at_start_is_broken_with_its_reason(shop: Shop) -> None:
    """A release that crashes at start is broken, and the detail has its exit code."""
    (shop.folder / "engine").write_text("#!/bin/sh\nexit 134\n")
    code, report = shop.matrix("0.160.0")
    assert code == 1
    assert verdicts(report) == {"0.160.0": "broken"}
    assert "134" in report["releases"][0]["clauses"][0]["detail"]


def test_a_binary_of_another_platform_is_unanswered(shop: Shop) -> None:
    """An executable for another platform is unanswered, not broken."""
    (shop.folder / "engine").write_text("\x7fELF of another world")
    code, report = shop.matrix("0.160.0")
    assert (code, verdicts(report)) == (2, {"0.160.0": "unanswered"})
    assert report["releases"][0]["clauses"][0]["detail"]


def test_a_release_without_a_build_for_this_platform_is_unanswered(shop: Shop) -> None:
    """A release that installs no executable here is unanswered."""
    (shop.folder / "engine").unlink()
    code, report = shop.matrix("0.160.0")
    assert (code, verdicts(report)) == (2, {"0.160.0": "unanswered"})
    assert "installs no executable for" in report["releases"][0]["failed"]["what"]


def test_an_unknown_version_is_refused_before_others_are_tested(shop: Shop) -> None:
    """A list with an unpublished version is a mistake, with the nearest versions as a hint; nothing is installed."""
    assert shop.matrix("0.160.0,0.160.5") == (2, None)
    assert "has no version 0.160.5" in shop.err
    assert "nearest: 0.160.0, 0.161.0" in shop.err
    assert shop.installed() == []


@pytest.mark.long
def test_a_listed_pre_release_is_probed(shop: Shop) -> None:
    """A pre-release is probed if it is listed."""
    code, report = shop.matrix("0.162.0-beta")
    assert (code, verdicts(report)) == (0, {"0.162.0-beta": "compatible"})


@pytest.mark.long
@pytest.mark.parametrize(
    "code, what",
    [("ENOSPC", "the disk is full"), ("ECONNRESET", "the package registry cannot"), ("EINTEGRITY", "does not match")],
)
def test_a_failed_download_is_unanswered_and_tried_again_the_next_time(shop: Shop, code: str, what: str) -> None:
    """A failed download is unanswered, also in a merge, and is retried by the next run."""
    shop.fails("install", code)
    assert verdicts(shop.matrix("0.160.0")[1]) == {"0.160.0": "unanswered"}
    assert what in shop.err
    assert verdicts(shop.run("matrix", "--merge", shop.folder / "results")[1]) == {"0.160.0": "unanswered"}
    shop.mended("install")
    assert verdicts(shop.matrix("0.160.0")[1]) == {"0.160.0": "compatible"}
    assert verdicts(shop.run("matrix", "--merge", shop.folder / "results")[1]) == {"0.160.0": "compatible"}


def test_a_clause_for_which_the_machine_lacked_something_is_tried_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The verdict doesn't wait for such a clause, but its result does not stay after the machine was mended."""

    def lacks(_: object) -> None:
        raise NotObservedError("this machine lacks socat", Reason.MACHINE)

    with monkeypatch.context() as lacking:
        lacking.setitem(CHECKS, "help.surface", replace(CHECKS["help.surface"], run=lacks))
        code, report = shop.matrix("0.160.0")
    assert (code, verdicts(report)) == (0, {"0.160.0": "compatible"})
    assert report["releases"][0]["clauses"][1]["detail"] == "this machine lacks socat"
    assert shop.matrix("0.160.0")[1]["releases"][0]["clauses"][1]["result"] == "pass"
    assert not [*(shop.folder / "results").glob("*.failed.ndjson")]


def test_content_other_than_published_is_refused(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package whose integrity differs from the published one is rejected."""
    npm = shop.folder / "bin/npm"
    npm.write_text(npm.read_text().replace('{"integrity": integrity(version)}', '{"integrity": "sha512-other"}'))
    code, report = shop.matrix("0.160.0")
    assert code == 2
    assert "differs from what npm published" in report["releases"][0]["failed"]["what"]


def test_a_disk_that_is_nearly_full_is_told(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is installed on a nearly full disk."""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(10**12, 10**12, 1000))
    code, report = shop.matrix("0.160.0")
    assert (code, verdicts(report)) == (2, {"0.160.0": "unanswered"})
    assert "the disk is full" in report["releases"][0]["failed"]["what"]


def test_an_error_of_the_system_while_probing_is_unanswered(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """An OSError during a probe makes the release unanswered."""

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("turngate_probes.probe.fingerprint", full)
    code, report = shop.matrix("0.160.0")
    assert (code, verdicts(report)) == (2, {"0.160.0": "unanswered"})
    assert "No space left on device" in report["releases"][0]["failed"]["what"]


def test_no_place_for_results_is_told(shop: Shop) -> None:
    """A results folder that can't be created ends with exit code 2."""
    (shop.folder / "file").write_text("")
    assert shop.matrix("0.160.0", "--results", shop.folder / "file/results") == (2, None)
    assert "can't write" in shop.err


@pytest.mark.long
def test_the_cache_is_kept_within_its_limit(shop: Shop) -> None:
    """Older releases are evicted so that the cache stays within its limit."""
    code, report = shop.matrix("all", "--cache-limit", "40KB")
    assert code == 0
    assert set(verdicts(report).values()) == {"compatible"}
    assert len([v for v in verdicts(report) if shop.root(v).exists()]) == 1
    assert report["peak_usage"]["cache_bytes"] <= 40_000


@pytest.mark.long
def test_a_release_in_use_is_not_evicted(shop: Shop) -> None:
    """A release in use is not evicted; one that no longer fits is unanswered."""
    shop.matrix("0.160.0")
    with in_use(shop.root("0.160.0")):
        code, report = shop.matrix("0.161.0", "--cache-limit", "40KB")
    assert shop.root("0.160.0").exists()
    assert (code, verdicts(report)) == (2, {"0.161.0": "unanswered"})
    assert "the cache is limited" in report["releases"][0]["failed"]["what"]


@pytest.mark.long
@pytest.mark.parametrize("faults", ["hangs-at-version", "no-version hangs-at-help"])
def test_an_interrupted_matrix_keeps_what_it_has(shop: Shop, monkeypatch: pytest.MonkeyPatch, faults: str) -> None:
    """After an interrupt the results so far are reported, and the next run probes the rest."""
    monkeypatch.setattr(run_module, "AT_ONCE", 1)
    shop.matrix("0.160.0")
    shop.faults("0.161.0", faults)
    shop.folder.joinpath("cache").mkdir(exist_ok=True)
    meeting = shop.folder / "meeting"
    os.mkfifo(meeting)
    engine = shop.folder / "engine"
    engine.write_text(engine.read_text().replace('"meeting"', repr(str(meeting))))

    def interrupt() -> None:
        meeting.read_text()
        os.kill(os.getpid(), signal.SIGINT)

    meeter = threading.Thread(target=interrupt)
    meeter.start()
    code, report = shop.matrix("0.160.0,0.161.0,0.162.0")
    meeter.join(30)
    assert code == 130
    assert report["interrupted"]
    assert verdicts(report) == {"0.160.0": "compatible", "0.161.0": "unanswered", "0.162.0": "unanswered"}
    shutil.rmtree(shop.root("0.161.0"))
    shop.faults("0.161.0")
    assert shop.matrix("0.160.0,0.161.0,0.162.0")[0] == 0
    assert "1 of them earlier" in shop.err


@pytest.mark.long
def test_two_runs_on_one_folder_are_refused(shop: Shop) -> None:
    """A second run of the same engine on the same folder is rejected."""
    with alone(shop.folder / "results", "codex"):
        assert shop.matrix("0.160.0") == (2, None)
        assert "another run is using the results of codex in" in shop.err
        assert "--results" in shop.err
        assert shop.matrix("0.160.0", "--results", shop.folder / "other")[0] == 0
    with alone(shop.folder / "results", "gemini"):
        assert shop.matrix("0.160.0")[0] == 0


VERSIONS = "0.160.0,0.161.0,0.162.0"


def meeting_in(shop: Shop) -> Path:
    """Make every release's engine open the same fifo, and return its path."""
    meeting = shop.folder / "meeting"
    os.mkfifo(meeting)
    engine = shop.folder / "engine"
    engine.write_text(engine.read_text().replace('"meeting"', repr(str(meeting))))
    return meeting


@pytest.mark.long
def test_a_matrix_that_is_killed_goes_on_where_it_was(shop: Shop) -> None:
    """After a kill, the next run reuses complete results, redoes the rest and cleans up."""
    shop.matrix("0.160.0")
    results, sandboxes = shop.folder / "results", shop.folder / "cache/sandboxes"
    shop.faults("0.161.0", "hangs-at-version")
    meeting = meeting_in(shop)
    code = "from turngate.cli import main; main()"
    argv = (sys.executable, "-c", code, "matrix", "codex", "--versions", VERSIONS, "--level", "static")
    quiet = subprocess.DEVNULL
    with subprocess.Popen((*argv, "--results", str(results)), stdout=quiet, stderr=quiet) as running:
        engine = int(meeting.read_text())
        running.kill()
        assert running.wait(30) == -signal.SIGKILL
    with suppress(ProcessLookupError):
        os.kill(engine, signal.SIGKILL)
    assert [part for part in results.glob("*.part") if part.name.startswith("codex@0.161.0-")] != []
    assert list(sandboxes.iterdir()) != []

    shutil.rmtree(shop.root("0.161.0"))
    shop.faults("0.161.0")
    ended, report = shop.matrix(VERSIONS)
    assert (ended, set(verdicts(report).values())) == (0, {"compatible"})
    assert list(verdicts(report)) == VERSIONS.split(",")
    assert "of them earlier" in shop.err
    assert not list(results.glob("*.part"))
    assert list(sandboxes.iterdir()) == []


@pytest.mark.long
@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux can adopt processes; docs/promises.md says what remains"
)
@pytest.mark.parametrize(
    "words",
    [
        "matrix codex --versions 0.160.0,0.161.0 --clause version.readable",
        "bisect codex version.readable --good 0.160.0 --bad 0.161.0",
    ],
    ids=lambda words: words.partition(" ")[0],
)
def test_a_command_for_many_releases_ends_what_they_left(shop: Shop, words: str) -> None:
    """The engines leave processes; none lives when the command has ended."""
    for version in ("0.160.0", "0.161.0"):
        shop.faults(version, "child=hidden")
    # with a contract of the user's own, the history answers for no release
    own = shop.folder / "own/engines/codex.yaml"
    own.parent.mkdir(parents=True)
    shutil.copy(contract_files()["codex"], own)
    env = (("NPM_CONFIG_REGISTRY", str(shop.folder)), ("TURNGATE_CONTRACTS", str(shop.folder / "own")))
    command = Command(shop.folder, str(shop.folder / "bin"), env)
    with tidied(shop.folder):
        done = command.run(*words.split(), "--results", shop.folder / "results")
        assert noted(shop.folder), done.err
        assert left(shop.folder) == []
