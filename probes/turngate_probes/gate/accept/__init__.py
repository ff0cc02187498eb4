"""Writes an accepted release into the pin, contract and recordings, and shows the changes."""

import difflib
from collections.abc import Iterator
from pathlib import Path

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from turngate import UsageError, engine_names
from turngate.contract import load
from turngate.contract.load import Contract
from turngate.files import contract_files
from turngate.sanitize import visible
from turngate_probes.gate.accept.ranges import rewrite
from turngate_probes.gate.accept.targets import AcceptTarget
from turngate_probes.gate.accept.transaction import recorded, written
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.probe_settings import ProbeSettings
from turngate_probes.releases.pins import LOCK, REQUIREMENTS
from turngate_probes.releases.source import ReleaseSource, default_registry, registries
from turngate_probes.releases.target import Target
from turngate_probes.report.reports import GateOutcome, GateReport, ReleaseReport

REVIEW = "review the diff before you commit it"


def accept(
    report: GateReport,
    into: AcceptTarget,
    target: Target,
    settings: ProbeSettings,
    interrupt: Interrupt,
    console: Console,
) -> None:
    """Write a gated release; TurngateError, with nothing written, if it can't be written completely."""
    (old, new), engine = report.probe.releases, report.engine
    if report.outcome not in (GateOutcome.PASS, GateOutcome.FAIL) or new.failed:
        raise UsageError("nothing was accepted, because the gate has no result", "see the reasons above")
    if not new.version:
        raise UsageError(
            "nothing was accepted, because the release doesn't report its version", "choose another release"
        )
    registry, pinned = default_registry(engine), dict[str, str]()
    # everything that may fail comes before anything is written
    if registry and new.source == registry.name and not target.path:
        with interrupt.scope() as stop:
            pinned = registry.pin(new.version, new.integrity or "", stop)
    file, own = contract_files()[engine], into.contracts / f"{engine}.yaml"
    changed = rewrite(file.read_text("utf-8"), old, new, report.differences, _compensations())
    exact = target if target.path else replace(target, version=new.version)
    contract = Contract(load.parse(changed.text, file.name)).at(new.version)
    with recorded(exact, source_of(new), contract, settings, interrupt) as recording:
        changes = {into.pins / engine / name: text for name, text in pinned.items()}
        if own != file or changed.done:  # an overlay gets a contract even without changes
            changes[own] = changed.text
        before = {path: path if path.exists() else file if path == own else None for path in changes}
        lines = [line for path, text in changes.items() for line in _diff(path, before[path], text)]
        written(changes, recording.folder, into.fixtures.joinpath(*recording.folder.parts[-2:]))
    contract_files.cache_clear()  # the user's folder may not have contained this contract before
    lines += [] if pinned else [f"not pinned: it does not come from {registry.title if registry else 'a registry'}"]
    lines += changed.done or ["the contract needs no change"]
    lines += [f"left to you: {what}" for what in changed.left]
    lines.append(f"recorded {recording.written} turns and pages in {'/'.join(recording.folder.parts[-2:])}")
    lines += [f"  {case} was recorded again, because a turn reached its deadline" for case in recording.repeated]
    lines += [f"  {case} ended early: {why}" for case, why in sorted(recording.early.items())]
    for line in [*lines, f"accepted {engine}@{new.version}: {REVIEW}"]:
        console.print(Text(visible(line, keep="\t")), soft_wrap=True)


def source_of(release: ReleaseReport) -> ReleaseSource:
    """Return the source that provides a release of a report again."""
    registry, version = registries(release.engine).get(release.source), str(release.version)
    if registry is None:
        return ReleaseSource()
    known = {version: release.integrity} if release.integrity else {}
    return ReleaseSource(replace(registry, versions=(version,), integrity=known))


def _diff(path: Path, before: Path | None, after: str) -> Iterator[str]:
    """Return the changes in a file, compared with its old text or with the contract that it overrides."""
    if path.name not in (LOCK, REQUIREMENTS):  # nobody reviews a lock line by line
        text = before.read_text("utf-8") if before else ""
        names = f"before {path}", str(path)
        yield from difflib.unified_diff(text.splitlines(), after.splitlines(), *names, lineterm="", n=1)
    yield f"wrote {path}"


def _compensations() -> dict[tuple[str, str], str]:
    """Collect the compensations in the contracts of all engines, by clause and symptom."""
    return {
        (deviation["clause"], deviation["symptom"]): deviation["action"]
        for engine in engine_names()
        for deviation in load.contract(engine).document.data.get("deviations", ())
    }
