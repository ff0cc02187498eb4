"""`turngate gate` end to end, on simulated releases."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.probes import engines
from tests.probes.gate.conftest import NEW, OLD, Gate
from turngate.contract.load import first_error
from turngate_probes.gate.collect import Collecting


def crossed(report: Any) -> dict[str, str]:
    """Return the results of the clauses that test both releases together."""
    clauses = report["probe"]["releases"][1]["clauses"]
    return {clause["id"]: clause["result"] for clause in clauses if clause["level"] == "gate"}


def subjects(report: Any, impact: str) -> list[str]:
    """Return the subjects of the differences with this impact."""
    return [row["subject"] for row in report["differences"] if row["impact"] == impact]


@pytest.mark.long
def test_you_can_upgrade_to_a_release_like_the_other(gate: Gate, tmp_path: Path) -> None:
    """Two equal releases pass all clauses without differences, and each report matches its schema."""
    page, text = tmp_path / "gate.html", tmp_path / "gate.md"
    code, report = gate.run("--report", page, "--report", text)
    assert (code, report["outcome"], report["differences"]) == (0, "pass", [])
    assert first_error("gate-report", report) is None
    assert first_error("probe-report", report["probe"]) is None
    assert crossed(report) == dict.fromkeys(("upgrade.resume", "rollback.resume", "rollback.touched"), "pass")
    assert report["changes_required"] is False
    # a caveat that occurs now and then stays one, although it never does in a simulation
    assert [(action["about"], action["new"]) for action in report["actions"]] == [("turn.ends-once", False)]
    assert f"codex@{NEW}: green, you can upgrade from codex@{OLD}" in gate.shop.err
    assert f"codex@{NEW} interactive: tools offered: 1; exec_command: denied" in gate.shop.err
    assert "upgrade.resume" in page.read_text()
    assert text.read_text().startswith("## ✅")
    # a second run reuses the results of both releases, but tests them in a shared HOME again
    gate.shop.err = ""
    assert gate.run()[0] == 0
    assert not re.search(r"(?m)^codex\S+: about \d+ turns planned", gate.shop.err)


@pytest.mark.long
def test_a_renamed_id_and_option_are_red(gate: Gate, few: tuple[str, ...]) -> None:
    """A renamed id and a missing option fail the gate; the reasons say what the consequence is."""
    gate.shop.faults(NEW, "renames-id", "poor-help")
    code, report = gate.run(*few, "--clause", "resume.accepted")
    assert code == 1
    assert "thread.started: thread_id" in subjects(report, "breaking")
    assert "--json" in subjects(report, "breaking")
    assert "the id, the session can never be resumed" in gate.shop.err
    assert any(reason.startswith("handle.present fails") for reason in report["reasons"])
    assert ": red, do not upgrade from" in gate.shop.err


@pytest.mark.long
def test_what_failed_before_fails_the_gate_too(gate: Gate, few: tuple[str, ...], tmp_path: Path) -> None:
    """An old failure fails the gate until the baseline excuses it; an obsolete entry fails the gate as well."""
    for version in (OLD, NEW):
        gate.shop.faults(version, "session=lost")
    asked = (*few, "--clause", "resume.accepted")
    code, report = gate.run(*asked)
    assert code == 1
    assert "resume.accepted" not in subjects(report, "breaking"), "it is no worse than before"
    entries = [
        f"- {{engine: codex, clause: {clause}, reason: known}}\n" for clause in ("resume.accepted", "upgrade.resume")
    ]
    baseline = tmp_path / "expected.yaml"
    baseline.write_text("".join(entries))
    code, report = gate.run(*asked, "--baseline", baseline)
    assert code == 0, report["reasons"]
    assert {entry["state"] for entry in report["baseline"]["entries"]} == {"excuses"}
    gate.shop.faults(NEW, "")
    (gate.shop.root(NEW) / "node_modules/.bin/faults").write_text("")
    code, report = gate.run(*asked, "--baseline", baseline, "--results", tmp_path / "afresh")
    assert code == 1
    assert {entry["state"] for entry in report["baseline"]["entries"]} == {"passes"}
    assert "remove" in report["reasons"][0]


@pytest.mark.long
def test_a_tool_that_runs_unasked_breaks(gate: Gate, tmp_path: Path) -> None:
    """A tool that runs unasked fails the gate by its clauses; the baseline can excuse them."""
    gate.shop.faults(NEW, "acts-unasked")
    xml, baseline = tmp_path / "gate.xml", tmp_path / "expected.yaml"
    code, report = gate.run("--report", xml)
    assert code == 1
    clauses = ["interactive.settings-cannot-widen", "interactive.tool-call", "interactive.writes-only-artifacts"]
    assert sorted(subjects(report, "breaking")) == ["interactive", *clauses]
    assert 'failures="4" errors="0"' in xml.read_text()
    lines = (f"- {{engine: codex, clause: {name}, reason: as it always did}}\n" for name in clauses)
    baseline.write_text("".join(lines))
    assert gate.run("--baseline", baseline, "--report", xml)[0] == 0
    assert 'failures="0" errors="0"' in xml.read_text()
    # if the older release does so too, nothing differs, but the clauses still fail
    (gate.shop.root(OLD) / "node_modules/.bin/faults").write_text("acts-unasked")
    code, report = gate.run("--results", tmp_path / "afresh")
    assert (code, subjects(report, "breaking")) == (1, [])


@pytest.mark.long
def test_what_can_not_be_had_is_unanswered(gate: Gate, few: tuple[str, ...]) -> None:
    """The exit code is 2 without an executable, a reachable registry, one common engine, or a known clause."""
    gate.shop.publish(OLD, NEW, "0.169.1")
    assert gate.run(*few)[0] == 0
    (gate.shop.folder / "without").write_text("executable")
    (gate.shop.folder / "engine").unlink()
    code, report = gate.run(*few, new="0.169.1")
    assert (code, report["outcome"], report["differences"]) == (2, "unanswered", [])
    assert "codex@0.169.1 could not be tested" in report["reasons"][0]
    assert report["changes_required"] is None
    assert "Not everything could be tested" in gate.shop.err
    for args in (("codex@1.0.0", "--from", "gemini@0.61.0"), ("codex@1.0.0", "--clause", "nothing")):
        assert gate.shop.run("gate", *args) == (2, None)
    gate.shop.fails("view", "ENOTFOUND")
    assert gate.shop.run("gate", f"codex@{NEW}") == (2, None)
    assert "registry cannot be reached" in gate.shop.err


@pytest.mark.long
def test_a_release_is_compared_with_itself_however_it_is_named(gate: Gate, few: tuple[str, ...]) -> None:
    """The release in use can be the newest one, which is no mistake of the caller."""
    own = engines.install(gate.shop.folder / "own")
    for new, old in ((f"codex@{NEW}", f"codex@{NEW}"), ("codex@latest", f"codex@{NEW}"), (f"codex={own}",) * 2):
        code, report = gate.shop.run("gate", new, "--from", old, *few)
        assert (code, report["differences"], report["actions"]) == (0, [], [])
        assert ", which is the same release" in gate.shop.err
        gate.shop.err = ""


@pytest.mark.parametrize("name", ["codex@banana", "codex@0.163", "codex@0.163.0.1"])
def test_what_names_no_version_is_told_before_anything_is_asked(gate: Gate, name: str) -> None:
    """An invalid version on either side is rejected before npm is called, with an example of a valid one."""
    for args in ((name, "--from", f"codex@{OLD}"), (f"codex@{NEW}", "--from", name)):
        assert gate.shop.run("gate", *args) == (2, None)
        assert f"{name!r} is not a release" in gate.shop.err
        assert "codex@latest" in gate.shop.err
    assert (gate.shop.folder / "calls").read_text() == ""


@pytest.mark.long
def test_an_executable_of_ones_own(gate: Gate, few: tuple[str, ...]) -> None:
    """Two executables with the same version are told apart by their paths, in the report and in the progress."""
    own = engines.install(gate.shop.folder / "own", "unknown")
    other = engines.install(gate.shop.folder / "other")
    code, report = gate.shop.run("gate", f"codex={own}", "--from", f"codex={other}", *few)
    assert code == 0, report["reasons"]
    names = [f"codex@0.169.0 ({executable})" for executable in (other, own)]
    assert [release["release"] for release in report["probe"]["releases"]] == names
    assert all(f"{name[-30:]}: done after " in gate.shop.err for name in names)  # the end of a long path
    assert "turn.budgeted" in subjects(report, "additive")


@pytest.mark.long
def test_an_interrupt_ends_it_with_130(gate: Gate, few: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """After an interrupt the results so far are reported, with the outcome `interrupted`."""
    run = Collecting.run

    def interrupted(self: Collecting) -> Any:
        collected = run(self)
        self.interrupt.set()
        return collected

    monkeypatch.setattr(Collecting, "run", interrupted)
    code, report = gate.run(*few)
    assert (code, report["outcome"]) == (130, "interrupted")


@pytest.mark.long
def test_the_report_is_written_by_its_suffix(gate: Gate) -> None:
    """A JSON report has the gate's schema, not that of a probe."""
    where = gate.shop.folder / "gate.json"
    own, other = (engines.install(gate.shop.folder / name) for name in ("own", "other"))
    code, _ = gate.shop.run(
        "gate", f"codex={own}", "--from", f"codex={other}", "--clause", "version.readable", "--report", where
    )
    assert code == 0
    assert json.loads(where.read_text())["schema"] == "turngate.gate-report/3"
