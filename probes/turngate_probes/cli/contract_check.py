"""Checks contract files, and compares them with recordings."""

import shlex
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from turngate import ContractError, NotCoveredError
from turngate.contract import lint, load
from turngate.contract.clauses import Result
from turngate.contract.lint.claims import about, recordings_named
from turngate.contract.load import Contract, Document
from turngate.contract.verdict import ClauseResult
from turngate.contract.versions import dotted
from turngate.files import is_packaged
from turngate.process.executable import on_path
from turngate_probes.clauses import judge_all
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.harness.cases import CASES
from turngate_probes.harness.observations import Observations
from turngate_probes.record import replay
from turngate_probes.record.requests import excess
from turngate_probes.releases.recorded_releases import ContractRecordings

LEVELS = ("static", "hermetic")
CALLS = {
    "tool_call": "nothing would show whether the engine asks before it acts",
    "command_call": "nothing would show whether a session survives a command that fails or is killed",
}
RANGE = "correct the claim or its range, or excuse a release that is known to be broken with --broken or in broken.yaml"


def findings(
    document: Document, recordings: ContractRecordings | None, broken: Collection[str]
) -> Iterator[ContractError]:
    """Find the mistakes in a contract. A contract without mistakes is also compared with its recordings.

    `broken` names more releases (`engine@version`) that are known to violate their contract.
    """
    wrong = [*lint.problems(document)]
    yield from wrong
    if recordings is None or wrong:
        return
    yield from _absent(document, recordings)
    if document.data["schema"] != load.SIMULATION:
        yield from _contradicted(document, recordings, {*broken, *recordings.broken(document.data["engine"])})


def compared(document: Document, recordings: ContractRecordings | None) -> int:
    """Return with how many recorded releases a contract without mistakes is compared; a simulation with none."""
    if recordings is None or document.data["schema"] == load.SIMULATION:
        return 0
    return len(recordings.releases(document.data["engine"]))


def unverified(document: Document) -> list[str]:
    """List the claims that were never observed, as paths."""
    return [dotted(claim.path) for claim in document.completed().claims() if not claim.evidence]


def unanswerable(document: Document) -> Iterator[tuple[str, str]]:
    """Yield the claims without a call that clauses need, as a path and its key: no release can be compatible."""
    for claim in document.claims("hermetic"):
        yield from ((dotted(claim.path), call) for call in CALLS if call not in claim.data)


def probe_of(contracts: Mapping[Path, Document]) -> str:
    """Return the command that probes the engines of valid contracts in one folder; empty for simulations alone.

    turngate reads contracts only from a folder `engines`.
    """
    engines = {file: each.data for file, each in contracts.items() if each.data["schema"] == load.CONTRACT}
    if not engines:
        return ""
    folder = next(iter(engines)).parent
    targets = " ".join(_target(data) for file, data in engines.items() if file.parent == folder)
    if folder.name != "engines":
        moved = " ".join(shlex.quote(str(file)) for file in engines if file.parent == folder)
        return f"move {moved} to my/engines, and then turngate --contracts my probe {targets}"
    overlay = "" if is_packaged(next(iter(engines)).absolute()) else f"--contracts {shlex.quote(str(folder.parent))} "
    return f"turngate {overlay}probe {targets}"


def _target(data: Mapping[str, Any]) -> str:
    """Return an engine with the executable that is here or on PATH, else its newest release, if a registry has it."""
    engine, executable = data["engine"], data.get("executable", data["engine"])
    if Path(executable).is_file():
        return f"{engine}=./{executable}"
    if on_path(executable):
        return str(engine)
    return f"{engine}@latest" if data.get("published") else f"{engine}=PATH"


def _absent(document: Document, recordings: ContractRecordings) -> Iterator[ContractError]:
    for path, name in recordings_named(document):
        if recordings.lacks(name):
            hint = f"correct it, or record it into {recordings.folders[0]}"
            yield document.error(path, f"there is no recording {name}", hint)


def _contradicted(
    document: Document, recordings: ContractRecordings, broken: Collection[str]
) -> Iterator[ContractError]:
    engine = document.data["engine"]
    recorded = recordings.releases(engine)
    for version, place in recorded.items():
        name, wrong = f"{engine}@{version}", list[ClauseResult]()
        try:
            contract = Contract(document).at(version)
            for mode in (contract, *(contract.in_output(mode.name) for mode in contract.outputs)):
                observed = replay.replay(mode, place)
                yield from excess(replay.folder_of(mode, place), observed.turns.values(), mode)
                wrong += _wrong(observed)
        except NotCoveredError as gap:
            yield document.error((), f"{gap.what}, but there are recordings of it", "extend a range")
            continue
        except ContractError as unreadable:
            yield unreadable
            continue
        if name in broken:
            if not wrong:
                yield document.error(
                    (), f"{name} is excused, but its recordings show nothing broken", "remove the excuse"
                )
            continue
        for result in wrong:
            paths = about(document, result.id, version)
            # only the deviation is stale, even if the clause is named elsewhere too
            deviations = [path for path in paths if path[0] == "deviations"] if result.stale else []
            message = f"recordings of {name} contradict it: {result.id}: {result.detail}"
            yield document.error(next(iter(deviations or paths), ()), message, RANGE)
    for name in sorted(broken):
        excused, _, version = name.partition("@")
        if excused == engine and version not in recorded:
            yield document.error((), f"{name} is excused, but there are no recordings of it", "remove the excuse")


def _wrong(observed: Observations) -> list[ClauseResult]:
    """Return the clauses that recordings violate, and those with a deviation that they don't show."""
    results: dict[str, ClauseResult] = {}
    judge_all(observed, results, LEVELS, {case.name for case in CASES} | {EVERYTHING})
    return [result for result in results.values() if result.result is Result.FAIL or result.stale]
