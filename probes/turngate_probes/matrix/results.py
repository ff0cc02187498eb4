"""The results of a matrix on disk (a plan, and the journal of each release), and the merged report.

A folder holds `plan-<key>.json` for each order (what was asked for, and how its last run ended), and for each
release `<engine>@<version>-<key>.ndjson` once it is answered, or `….failed.ndjson` when it could not be. The key
is of the release's content, turngate's version, contract and clauses, and what was asked: if any of it changes the
release is asked again. A file that ends in `.part` is of a run that was killed, and counts nothing.
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

from turngate import EnvironmentFailed
from turngate.contract import load
from turngate.contract.clauses import Level, Reason
from turngate.contract.verdict import FailOn
from turngate.files import locked, write_atomically
from turngate_probes.harness.resource_usage import Machine, machine
from turngate_probes.journal import events as journal_events
from turngate_probes.journal.events import Event, Origin, ProbeStarted, ReleaseFailed, ReleasePlanned
from turngate_probes.journal.journal import read
from turngate_probes.releases.registry import Registry
from turngate_probes.report.build import build, code_of
from turngate_probes.report.structs import PeakUsage, ProbeReport, ReleaseReport

SCHEMA = "turngate.matrix-plan/1"
KEY_LENGTH = 12
NOT_PROBED = "it was not probed: the run of its shard ended before its turn"
INTERRUPTED = "interrupted"
ANSWERED, FAILED, PART = ".ndjson", ".failed.ndjson", ".part"


class Totals(Struct, frozen=True):
    """How a run of a matrix ended, without results of earlier runs."""

    seconds: float
    engine_seconds: float
    cache_bytes: int
    memory_bytes: int


class Plan(Struct, frozen=True, tag_field="schema", tag=SCHEMA):
    """An order as it stands on disk: `files` gives the stem of each release's journal, of all shards."""

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

    @classmethod
    def of(
        cls, registry: Registry, versions: Iterable[str], level: Level, clauses: tuple[str, ...], shard: tuple[int, int]
    ) -> "Plan":
        """Plan releases that a registry has, now and on this machine."""
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
            registry.engine, registry.name, level, clauses, shard,
            {version: f"{registry.engine}@{version}-{key}" for version, key in keys.items()}, turngate,
            contract.at().contract_version, datetime.now(UTC).isoformat(timespec="milliseconds"), machine(),
        )  # fmt: skip

    @property
    def mine(self) -> tuple[str, ...]:
        """The versions of this shard: every n-th, so that each shard gets old and new ones."""
        number, count = self.shard
        return tuple(self.files)[number - 1 :: count]

    def write(self, folder: Path) -> None:
        """Write the plan, whole or not at all; EnvironmentFailed if it can't be."""
        path = folder / f"plan-{_digest([self.files, self.shard])}.json"
        try:
            write_atomically(path, msgspec.json.format(msgspec.json.encode(self), indent=1).decode() + "\n")
        except OSError as error:
            raise _unwritable(folder, error) from error

    def journal(self, folder: Path, version: str, suffix: str) -> Path:
        """Name the journal of a release that is ANSWERED, FAILED or a PART."""
        return folder / f"{self.files[version]}{suffix}"


@contextmanager
def alone(folder: Path, engine: str) -> Iterator[None]:
    """Lock the results of an engine in a folder while the block runs; EnvironmentFailed if they are locked."""
    with ExitStack() as holding:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            holding.enter_context(locked(folder / f".{engine}.lock", wait=False))
        except BlockingIOError:
            hint = "wait until it has ended, or give --results a folder of its own"
            raise EnvironmentFailed(f"another run keeps its results of {engine} in {folder}", hint) from None
        except OSError as error:
            raise _unwritable(folder, error) from error
        yield


def plans(folder: Path) -> list[Plan]:
    """Return the last plan of each shard that ran in a folder, newest first.

    EnvironmentFailed if there is none, or a plan can't be read.
    """
    oldest_first = sorted((_read(path) for path in folder.glob("plan-*.json")), key=lambda plan: plan.at)
    if not oldest_first:
        raise EnvironmentFailed(f"{folder} holds no results of a matrix", "give the --results of each shard")
    return list({(plan.engine, plan.shard): plan for plan in oldest_first}.values())[::-1]


def _read(path: Path) -> Plan:
    try:
        return msgspec.json.decode(path.read_bytes(), type=Plan)
    except (OSError, ValueError) as error:
        hint = "run that shard again, or merge with the turngate that made it"
        raise EnvironmentFailed(f"the plan {path} can't be read: {error}", hint) from error


def _unwritable(folder: Path, error: OSError) -> EnvironmentFailed:
    return EnvironmentFailed(f"{folder} can't be written: {error.strerror}", "choose another place")


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:KEY_LENGTH]


def joined(
    plans: Sequence[Plan], folders: Sequence[Path], *, fail_on: FailOn = FailOn.BROKEN, interrupted: bool = False,
    merging: bool = False,
    failed: Mapping[str, str] | None = None,
) -> ProbeReport:  # fmt: skip
    """Build the report of all planned releases; those in no folder are unanswered.

    With `merging` that is what all shards were to do, else those of the plans alone. Of two plans of one release the
    newer one counts, and before both that of the shard whose part it was.
    `failed` says why of releases that could not even leave a journal. EnvironmentFailed if the plans don't fit
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
        turngate=first.turngate, started_at=min(plan.at for plan in plans), machine=first.machine, level=first.level,
        fail_on=fail_on, clauses=first.clauses, cores=first.machine.cores or 1, interrupted=interrupted,
        seconds=max((total.seconds for total in totals), default=0.0),
        engine_seconds=round(sum(total.engine_seconds for total in totals), 3),
        peak_usage=PeakUsage(
            max((total.cache_bytes for total in totals), default=0),
            max((total.memory_bytes for total in totals), default=0),
        ),
        exit_code=code_of(releases, fail_on, interrupted=interrupted), releases=releases,
    )  # fmt: skip


def _check(plans: Sequence[Plan]) -> None:
    """Refuse plans that don't fit together; EnvironmentFailed names the difference."""
    if len({(plan.level, plan.clauses) for plan in plans}) > 1:
        raise EnvironmentFailed("the shards were asked different questions", "merge those of one level and its clauses")
    if len(programs := {plan.turngate for plan in plans}) > 1:
        what = f"the shards are of different turngates: {', '.join(sorted(programs))}"
        raise EnvironmentFailed(what, "run the older ones again")
    for engine in sorted({plan.engine for plan in plans}):
        contracts = {plan.contract_version for plan in plans if plan.engine == engine}
        if len(contracts) > 1:
            what = f"the shards judge {engine} by different contracts: {', '.join(sorted(contracts))}"
            raise EnvironmentFailed(what, "run the older ones again")


def _release(plan: Plan, folders: Sequence[Path], version: str, why: str) -> ReleaseReport:
    for suffix in (ANSWERED, FAILED):
        for folder in folders:
            path = plan.journal(folder, version, suffix)
            if path.exists() and (listed := build(read(path)).releases):
                return listed[0]
    return _absent(plan, version, why)


def _absent(plan: Plan, version: str, why: str) -> ReleaseReport:
    release, at = f"{plan.engine}@{version}", plan.at
    reason = Reason.INTERRUPTED if why in (NOT_PROBED, INTERRUPTED) else Reason.MACHINE
    events: list[Event] = [
        ProbeStarted(
            at=at, turngate=plan.turngate, machine=plan.machine, level=plan.level, fail_on=FailOn.BROKEN, cores=1,
            clauses=plan.clauses,
        ),
        ReleasePlanned(
            at=at, release=release, engine=plan.engine, version=version, executable=None, source=plan.source,
            contract_version=plan.contract_version, turns=0, note="",
        ),
        ReleaseFailed(at=at, release=release, reason=reason, what=why, hint="run the matrix again"),
    ]  # fmt: skip
    return build(events).releases[0]
