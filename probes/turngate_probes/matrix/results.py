"""The results of a matrix on disk (a plan, and the journal of each release), and the merged report.

A folder has `plan-<key>.json` for each order (the settings, and how its last run ended), and for each release
`<engine>@<version>-<key>.ndjson` once it has a result, or `….failed.ndjson` if it could not be tested. The key
depends on the release's content, turngate's version, contract and clauses, and the settings. If any of them changes,
the release is tested again. A `.part` file was left by a killed run, and is ignored.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from semver import Version

from turngate import MachineError, NotFoundError, UsageError
from turngate.contract import load
from turngate.contract.clauses import FIRST_SET, NEWEST_SET, Level, Reason
from turngate.contract.verdict import FailOn
from turngate.decoding import decode
from turngate.files import locked, write_atomically
from turngate_probes.harness.resource_usage import Machine, machine
from turngate_probes.journal import events as journal_events
from turngate_probes.journal.events import Event, Origin, ProbeStarted, ReleaseFailed, ReleasePlanned
from turngate_probes.journal.journal import read
from turngate_probes.releases.registry import Registry
from turngate_probes.report.build import build, code_of
from turngate_probes.report.reports import PeakUsage, ProbeReport, ReleaseReport

SCHEMA = "turngate.matrix-plan/1"
KEY_LENGTH = 12
NOT_PROBED = "not probed, because its shard ended early"
INTERRUPTED = "interrupted"
ANSWERED, FAILED, PART = ".ndjson", ".failed.ndjson", ".part"


class Totals(Struct, frozen=True):
    """How a run of a matrix ended, without results of earlier runs."""

    seconds: float
    engine_seconds: float
    cache_bytes: int
    memory_bytes: int


class MatrixPlan(Struct, frozen=True, tag_field="schema", tag=SCHEMA):
    """An order as saved on disk: `files` has the stem of each release's journal, for all shards."""

    engine: str
    source: Origin
    level: Level
    clauses: tuple[str, ...]
    shard: tuple[int, int]
    files: dict[str, str]
    turngate: str
    contract_version: str
    at: str
    machine: Machine
    totals: Totals | None = None
    clause_set: str = FIRST_SET

    @classmethod
    def of(
        cls, registry: Registry, versions: Iterable[str], level: Level, clauses: tuple[str, ...], shard: tuple[int, int]
    ) -> "MatrixPlan":
        """Plan releases of a registry, now and on this machine."""
        contract, turngate = load.contract(registry.engine), metadata.version("turngate")
        asked = [
            contract.document.data,
            repr(load.catalogue()),
            turngate,
            journal_events.SCHEMA,
            level,
            sorted(clauses),
        ]
        keys = {version: _digest([*asked, registry.identity(version)]) for version in versions}
        return cls(
            registry.engine,
            registry.name,
            level,
            clauses,
            shard,
            {version: f"{registry.engine}@{version}-{key}" for version, key in keys.items()},
            turngate,
            contract.at().contract_version,
            datetime.now(UTC).isoformat(timespec="milliseconds"),
            machine(),
            clause_set=NEWEST_SET,
        )

    @property
    def mine(self) -> tuple[str, ...]:
        """The versions of this shard: every n-th, so that each shard gets old and new releases."""
        number, count = self.shard
        return tuple(self.files)[number - 1 :: count]

    def write(self, folder: Path) -> None:
        """Write the plan completely or not at all; MachineError if it can't be written."""
        path = folder / f"plan-{_digest([self.files, self.shard])}.json"
        try:
            write_atomically(path, msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n")
        except OSError as error:
            raise _unwritable(folder, error) from error

    def journal(self, folder: Path, version: str, suffix: str) -> Path:
        """Return the journal of a release that is ANSWERED, FAILED or a PART."""
        return folder / f"{self.files[version]}{suffix}"


@contextmanager
def alone(folder: Path, engine: str) -> Iterator[None]:
    """Lock the results of an engine in a folder while the block runs; MachineError if they are locked."""
    with ExitStack() as holding:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            holding.enter_context(locked(folder / f".{engine}.lock", wait=False))
        except BlockingIOError:
            hint = "wait until it has ended, or pass another folder as --results"
            raise MachineError(f"another run is using the results of {engine} in {folder}", hint) from None
        except OSError as error:
            raise _unwritable(folder, error) from error
        yield


def plans(folder: Path) -> list[MatrixPlan]:
    """Return the last plan of each shard that ran in a folder, newest first.

    UsageError if there is none, or a plan can't be read.
    """
    oldest_first = sorted((_read(path) for path in folder.glob("plan-*.json")), key=lambda plan: plan.at)
    if not oldest_first:
        raise NotFoundError(f"{folder} has no matrix results", "pass the --results folder of each shard")
    return list({(plan.engine, plan.shard): plan for plan in oldest_first}.values())[::-1]


def _read(path: Path) -> MatrixPlan:
    try:
        return decode(path.read_bytes(), MatrixPlan)
    except (OSError, ValueError) as error:
        hint = "run that shard again, or merge with the turngate that made it"
        raise UsageError(f"can't read the plan {path}: {error}", hint) from error


def _unwritable(folder: Path, error: OSError) -> MachineError:
    return MachineError(f"can't write to {folder}: {error.strerror}", "choose another folder")


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:KEY_LENGTH]


def joined(
    plans: Sequence[MatrixPlan],
    folders: Sequence[Path],
    *,
    fail_on: FailOn = FailOn.BROKEN,
    interrupted: bool = False,
    merging: bool = False,
    failed: Mapping[str, str] | None = None,
) -> ProbeReport:
    """Build the report of all planned releases; those without results are unanswered.

    With `merging`, these are the releases of all shards, otherwise those of the plans. Of two plans of one release,
    that of its own shard counts, else the newer one.
    `failed` has the reasons of releases without a journal. UsageError if the plans don't fit
    together, or a journal can't be read.
    """
    plans = sorted(plans, key=lambda plan: plan.at, reverse=True)
    _check(plans)
    first, why, whys = plans[0], INTERRUPTED if interrupted else NOT_PROBED, failed or {}
    reports: dict[str, ReleaseReport] = {}
    wanted = [(plan, version) for plan in plans for version in plan.mine]
    wanted += [(plan, version) for plan in plans for version in plan.files if merging]
    for plan, version in wanted:
        name = f"{plan.engine}@{version}"
        if name not in reports:
            reports[name] = _release(plan, folders, version, whys.get(version, why))
    releases = tuple(sorted(reports.values(), key=lambda row: (row.engine, Version.parse(str(row.version)))))
    totals = [plan.totals for plan in plans if plan.totals]
    return ProbeReport(
        turngate=first.turngate,
        started_at=min(plan.at for plan in plans),
        machine=first.machine,
        level=first.level,
        fail_on=fail_on,
        clauses=first.clauses,
        cores=first.machine.cores or 1,
        interrupted=interrupted,
        seconds=max((total.seconds for total in totals), default=0.0),
        engine_seconds=round(sum(total.engine_seconds for total in totals), 3),
        peak_usage=PeakUsage(
            max((total.cache_bytes for total in totals), default=0),
            max((total.memory_bytes for total in totals), default=0),
        ),
        exit_code=code_of(releases, fail_on, interrupted=interrupted),
        releases=releases,
    )


def _check(plans: Sequence[MatrixPlan]) -> None:
    """Reject plans that don't fit together; UsageError names the difference."""
    if len({(plan.level, plan.clauses) for plan in plans}) > 1:
        raise UsageError("the shards tested different levels or clauses", "merge only shards with the same ones")
    if len(programs := {plan.turngate for plan in plans}) > 1:
        what = f"the shards come from different versions of turngate: {', '.join(sorted(programs))}"
        raise UsageError(what, "run the older ones again")
    for engine in sorted({plan.engine for plan in plans}):
        contracts = {plan.contract_version for plan in plans if plan.engine == engine}
        if len(contracts) > 1:
            what = f"the shards used different contracts of {engine}: {', '.join(sorted(contracts))}"
            raise UsageError(what, "run the older ones again")


def _release(plan: MatrixPlan, folders: Sequence[Path], version: str, why: str) -> ReleaseReport:
    for suffix in (ANSWERED, FAILED):
        for folder in folders:
            path = plan.journal(folder, version, suffix)
            if path.exists() and (listed := build(read(path)).releases):
                return listed[0]
    return _absent(plan, version, why)


def _absent(plan: MatrixPlan, version: str, why: str) -> ReleaseReport:
    release, at = f"{plan.engine}@{version}", plan.at
    reason = Reason.INTERRUPTED if why in (NOT_PROBED, INTERRUPTED) else Reason.MACHINE
    events: list[Event] = [
        ProbeStarted(
            at=at,
            turngate=plan.turngate,
            machine=plan.machine,
            level=plan.level,
            fail_on=FailOn.BROKEN,
            cores=1,
            clauses=plan.clauses,
            clause_set=plan.clause_set,
        ),
        ReleasePlanned(
            at=at,
            release=release,
            engine=plan.engine,
            version=version,
            executable=None,
            source=plan.source,
            contract_version=plan.contract_version,
            turns=0,
            note="",
        ),
        ReleaseFailed(at=at, release=release, reason=reason, what=why, hint="run the matrix again"),
    ]
    return build(events).releases[0]
