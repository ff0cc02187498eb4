"""Collecting the results of both releases, separately and in a shared HOME."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import engines
from tests.probes.gate.conftest import NEW, OLD, Gate
from tests.probes.report import samples
from turngate.errors import NotInstalledError
from turngate_probes.gate.collect import ReleaseAnswer, located, remarked
from turngate_probes.gate.decision import question
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.releases import pypi
from turngate_probes.releases.npm import NpmRegistry
from turngate_probes.releases.pins import pinned_version
from turngate_probes.releases.registry import Registry
from turngate_probes.releases.target import Target
from turngate_probes.report.wording import remarks


def crossed(report: Any) -> dict[str, str]:
    """Return the results of the clauses that test both releases together."""
    clauses = report["probe"]["releases"][1]["clauses"]
    return {clause["id"]: clause["result"] for clause in clauses if clause["level"] == "gate"}


@pytest.mark.long
def test_a_session_that_is_lost_by_the_upgrade_breaks_it(gate: Gate, few: tuple[str, ...]) -> None:
    """The gate fails if the newer release does not send the history of an older session to the model."""
    gate.shop.faults(NEW, "forgets")
    code, report = gate.run(*few)
    assert code == 1
    assert crossed(report)["upgrade.resume"] == "fail"
    assert any("not sent to the model" in reason for reason in report["reasons"])
    assert crossed(report)["rollback.touched"] == "not_run", "what the upgrade lost can't be taken back"


@pytest.mark.long
def test_a_store_that_moves_degrades_the_way_back(gate: Gate, few: tuple[str, ...]) -> None:
    """Sessions that the older release can't find after a rollback are reported, but don't fail the gate."""
    gate.shop.faults(NEW, "moves-store")
    code, report = gate.run(*few)
    assert code == 0, report["reasons"]
    assert crossed(report) == {"upgrade.resume": "pass", "rollback.resume": "fail", "rollback.touched": "fail"}
    assert [action["about"] for action in report["actions"] if action["new"]] == ["rollback.resume", "rollback.touched"]
    assert report["changes_required"] is True


def test_a_version_that_is_not_published_is_told_before_the_other_is_probed(gate: Gate, few: tuple[str, ...]) -> None:
    """An unpublished version on either side is rejected with its neighbours, before anything is installed."""
    for old, new in ((OLD, "0.169.1"), ("0.159.9", NEW)):
        assert gate.run(*few, old=old, new=new) == (2, None)
        assert "has no version 0.1" in gate.shop.err
        assert "nearest: 0.16" in gate.shop.err
    assert gate.shop.installed() == []


@pytest.mark.long
def test_latest_is_the_newest_on_either_side(gate: Gate, few: tuple[str, ...]) -> None:
    """`latest` means the newest release, both as the older and as the newer one."""
    code, report = gate.run(*few, old="latest", new="0.162.0")
    assert (code, report["old"]["version"], report["new"]["version"]) == (0, NEW, "0.162.0")
    assert gate.shop.run("gate", "codex@latest", "--from", f"codex@{OLD}", *few)[1]["new"]["version"] == NEW


def test_a_gate_on_pypi_takes_the_pinned_release_from_there_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """With PyPI as the registry, the pinned release comes from PyPI too, and npm isn't needed."""
    pinned = str(pinned_version("codex"))
    monkeypatch.setattr(pypi, "pip", lambda *_: f"Available versions: {pinned}")
    monkeypatch.setenv("PATH", "")
    _, registry = located((Target("codex", pinned),), "pypi", Interrupt())
    assert registry is not None
    assert registry.name == "pypi"
    with pytest.raises(NotInstalledError, match="npm is not on PATH: install Node"):
        located((Target("codex", pinned), Target("codex", "latest")), "npm", Interrupt())


@pytest.mark.long
def test_the_progress_counts_every_part(gate: Gate, few: tuple[str, ...]) -> None:
    """Progress counts three parts: an executable, a published release, and both in a shared HOME."""
    own = engines.install(gate.shop.folder / "own")
    assert gate.shop.run("gate", f"codex={own}", "--from", f"codex@{OLD}", *few)[0] == 0
    counted = re.findall(r"(\d) of (\d) parts done", gate.shop.err)
    assert counted == [("1", "3"), ("2", "3"), ("3", "3")]
    assert re.search(r"codex@0\.162\.0 and codex=\S+ in a shared HOME: about \d turns planned", gate.shop.err)
    assert "releases done" not in gate.shop.err


def test_how_a_release_was_chosen_is_told() -> None:
    """OLD is turngate's pin only if nobody names one, and NEW is perhaps not the newest if npm can't be reached."""
    frame = samples.of(samples.whole(release=f"codex@{NEW}"))
    answer = ReleaseAnswer(frame, frame.releases[0], [])
    reached = NpmRegistry("codex", "@openai/codex", (), (NEW,))
    more: Any = {"baseline": None, "results": None, "cache_limit": "1", "jobs": None, "clauses": ()}

    def remarks_of(old: str | None, new: str, registry: Registry) -> list[bool]:
        both = remarked(question(f"codex@{new}", old, **more), registry, answer, answer)
        return [len(remarks(each.release)) > 0 for each in both]

    stale = replace(reached, is_stale=True)
    assert remarks_of(f"codex@{OLD}", "latest", reached) == [False, False]
    assert remarks_of(None, "latest", stale) == [True, True]
    assert remarks_of(f"codex@{OLD}", NEW, stale) == [False, False]
