"""Writes an accepted release into pin, contract and recordings, and shows what it changed."""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from turngate import load
from turngate.contract import Npm
from turngate.errors import EnvironmentFailed
from turngate.overlay import overlay, use_overlay
from turngate.plain import visible
from turngate_probes.cases import RECORDED
from turngate_probes.gate.accept.pin import LOCK, pin_files
from turngate_probes.gate.accept.place import Place, place, source
from turngate_probes.gate.accept.ranges import Rewritten, rewrite
from turngate_probes.interrupt import Interrupt
from turngate_probes.play import Stage
from turngate_probes.probe import Settings
from turngate_probes.record.recorder import record
from turngate_probes.report.output import write_atomically
from turngate_probes.targets import Target, held

__all__ = ["accept", "place"]

REVIEW = "review the diff before it is committed"


def accept(
    report: Mapping[str, Any], into: Place, target: Target, settings: Settings, interrupt: Interrupt, console: Console
) -> None:
    """Write a release that was gated; EnvironmentFailed, with nothing written, if the gate did not answer."""
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
    for name, text in pinned.items():
        _write(into.pin(engine) / name, text, console)
    _contract(into.contract(engine), file, rewritten, console)
    _tell(console, rewritten, pinned=bool(pinned))
    _record(target, into, settings, interrupt, console)
    console.print(Text(f"accepted {engine}@{version}: {REVIEW}"), soft_wrap=True)


def _pin(
    engine: str, npm: Npm | None, version: str, new: Mapping[str, Any], target: Target, interrupt: Interrupt
) -> dict[str, str]:
    if target.path or npm is None or new["source"] != "npm":
        return {}
    with interrupt.covering() as stop:
        return pin_files(engine, npm, version, str(new["note"] or "").rpartition(", ")[2], stop)


def _contract(path: Path, file: Path, rewritten: Rewritten, console: Console) -> None:
    """Write the contract where it differs; an overlay gets one even if nothing is changed in it."""
    if path == file and not rewritten.done:
        return
    _show(console, path, file.read_text("utf-8"), rewritten.text)
    write_atomically(path, rewritten.text)
    use_overlay(overlay())  # which may not have had this file before


def _record(target: Target, into: Place, settings: Settings, interrupt: Interrupt, console: Console) -> None:
    stage = Stage.of(settings.sandboxes, settings.jobs, interrupt)
    with interrupt.covering() as stop, held(target, lambda _: None, stop) as release:
        done = record(release, RECORDED, stage, into.fixtures, interrupt)
    console.print(Text(f"recorded {done.turns} turns in {done.folder}"), soft_wrap=True)
    for case, why in sorted(done.early.items()):
        console.print(Text(visible(f"  {case} ended early: {why}")), soft_wrap=True)


def _write(path: Path, text: str, console: Console) -> None:
    if path.name != LOCK:  # nobody reads one line by line
        _show(console, path, path.read_text("utf-8") if path.exists() else "", text)
    write_atomically(path, text)
    console.print(Text(visible(f"wrote {path}")), soft_wrap=True)


def _show(console: Console, path: Path, before: str, after: str) -> None:
    lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f"before {path}", str(path), lineterm="", n=1)
    for line in lines:
        console.print(Text(visible(line, keep="\t")), soft_wrap=True)


def _tell(console: Console, rewritten: Rewritten, *, pinned: bool) -> None:
    told = [] if pinned else ["not pinned: it does not come from npm"]
    told += list(rewritten.done) or ["the contract holds as it is: no claim changed"]
    told += [f"left to you: {each}" for each in rewritten.left]
    for line in told:
        console.print(Text(visible(line)), soft_wrap=True)


def _compensations() -> dict[tuple[str, str], str]:
    """Collect what the contracts of all engines ask for, by clause and symptom."""
    return {
        (each["clause"], each["symptom"]): each["compensation"]
        for engine in load.engines()
        for each in load.contract(engine).document.data.get("deviations", ())
    }
