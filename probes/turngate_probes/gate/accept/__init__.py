"""Writes an accepted release into pin, contract and recordings, and shows what it changed."""

import difflib
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from turngate.contract import load
from turngate.contract.load import Contract
from turngate.contract.structs import Npm
from turngate.errors import EnvironmentFailed
from turngate.files import overlay, use_overlay
from turngate.sanitize import visible
from turngate_probes.gate.accept.ranges import Rewritten, rewrite
from turngate_probes.gate.accept.targets import LOCK, AcceptTarget, pin_files, source
from turngate_probes.gate.accept.transaction import Recording, recorded, written
from turngate_probes.gate.sources import source_of
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.probe import ProbeSettings
from turngate_probes.releases.source import Target

__all__ = ["accept", "place"]

REVIEW = "review the diff before it is committed"


def accept(
    report: Mapping[str, Any],
    into: AcceptTarget,
    target: Target,
    settings: ProbeSettings,
    interrupt: Interrupt,
    console: Console,
) -> None:
    """Write a release that was gated; EnvironmentFailed, with nothing written, if it can't be written whole."""
    if report["outcome"] not in ("pass", "fail") or report["new"]["failed"]:
        raise EnvironmentFailed("nothing was accepted, since the gate was not answered", "see its reasons above")
    engine, version = str(report["engine"]), report["new"]["version"]
    if not version:
        raise EnvironmentFailed("nothing was accepted, since the release does not say its version", "name another")
    contract = load.contract(engine).at(version)
    # what may fail comes before anything is written
    pinned = _pin(engine, contract.npm, version, report["new"], target, interrupt)
    file, _ = source(engine)
    rewritten = rewrite(file.read_text("utf-8"), report, _compensations())
    exact = target if target.path else replace(target, version=version)
    by = Contract(load.parse(rewritten.text, file.name)).at(version)
    with recorded(exact, source_of({**report["new"], "engine": engine}), by, settings, interrupt) as recording:
        changes = {into.pin(engine) / name: text for name, text in pinned.items()}
        if into.contract(engine) != file or rewritten.done:  # an overlay gets one even if nothing is changed in it
            changes[into.contract(engine)] = rewritten.text
        before = {path: _before(path, file) for path in changes}
        written(changes, recording, into.fixtures)
    use_overlay(overlay())  # which may not have had this contract before
    for path, text in changes.items():
        _show(console, path, before[path], text)
    _tell(console, rewritten, recording, pinned=bool(pinned))
    console.print(Text(f"accepted {engine}@{version}: {REVIEW}"), soft_wrap=True)


def _pin(
    engine: str, npm: Npm | None, version: str, new: Mapping[str, Any], target: Target, interrupt: Interrupt
) -> dict[str, str]:
    if target.path or npm is None or new["source"] != "npm":
        return {}
    with interrupt.covering() as stop:
        return pin_files(engine, npm, version, str(new["note"] or "").rpartition(", ")[2], stop)


def _before(path: Path, contract: Path) -> str:
    """Return what a file is compared with: its own text, or that of the contract which it goes before."""
    kept = path if path.exists() else contract if path.name == contract.name else None
    return kept.read_text("utf-8") if kept else ""


def _show(console: Console, path: Path, before: str, after: str) -> None:
    if path.name != LOCK:  # nobody reads one line by line
        names = f"before {path}", str(path)
        for line in difflib.unified_diff(before.splitlines(), after.splitlines(), *names, lineterm="", n=1):
            console.print(Text(visible(line, keep="\t")), soft_wrap=True)
    console.print(Text(visible(f"wrote {path}")), soft_wrap=True)


def _tell(console: Console, rewritten: Rewritten, recording: Recording, *, pinned: bool) -> None:
    told = [] if pinned else ["not pinned: it does not come from npm"]
    told += list(rewritten.done) or ["the contract holds as it is: no claim changed"]
    told += [f"left to you: {each}" for each in rewritten.left]
    told.append(f"recorded {recording.done.written} turns and pages in {recording.folder}")
    told += [f"  {case} ended early: {why}" for case, why in sorted(recording.done.early.items())]
    for line in told:
        console.print(Text(visible(line)), soft_wrap=True)


def _compensations() -> dict[tuple[str, str], str]:
    """Collect what the contracts of all engines ask for, by clause and symptom."""
    return {
        (each["clause"], each["symptom"]): each["compensation"]
        for engine in load.engines()
        for each in load.contract(engine).document.data.get("deviations", ())
    }
