"""What a matrix leaves on disk: a plan, and the journal of each release, found again by what decided it.

A folder holds `plan-<key>.json` for each order (what was asked for, and how its last run ended), and for each
release `<engine>@<version>-<key>.ndjson` once it is answered, or `….failed.ndjson` when it could not be. The key
is of the release's content, turngate's version, contract and clauses, and what was asked: if any of it changes the
release is asked again. A file that ends in `.part` is of a run that was killed, and counts nothing.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from turngate.contract import load
from turngate.errors import EnvironmentFailed
from turngate.files import locked, write_atomically
from turngate_probes.releases.registry import Registry

SCHEMA = "turngate.matrix-plan/1"
KEY_LENGTH = 12


@dataclass(frozen=True, slots=True)
class Totals:
    """How a run of a matrix ended; what was kept from earlier runs is not in it."""

    seconds: float
    engine_seconds: float
    cache_bytes: int
    memory_bytes: int


@dataclass(frozen=True, slots=True)
class Plan:
    """An order as it stands on disk: `files` gives the stem of each release's journal, of all shards."""

    engine: str
    source: str
    level: str
    clauses: tuple[str, ...]
    shard: tuple[int, int]
    files: dict[str, str]
    turngate: str
    contract_version: str
    at: str
    machine: dict[str, Any]
    totals: Totals | None = None

    @classmethod
    def of(
        cls, registry: Registry, versions: Iterable[str], level: str, clauses: tuple[str, ...],
        shard: tuple[int, int] = (1, 1), *, at: str = "", machine: dict[str, Any] | None = None,
    ) -> "Plan":  # fmt: skip
        """Plan releases that a registry has."""
        contract, turngate = load.contract(registry.engine), metadata.version("turngate")
        asked = [contract.document.data, repr(load.catalogue()), turngate, level, sorted(clauses)]
        files = {}
        for version in versions:
            key = _digest([*asked, registry.identity(version)])
            files[version] = f"{contract.engine}@{version}-{key}"
        return cls(
            contract.engine, registry.name, level, clauses, shard, files, turngate,
            contract.at().contract_version, at, machine or {},
        )  # fmt: skip

    @property
    def mine(self) -> tuple[str, ...]:
        """The versions of this shard: every n-th, so that each shard gets old and new ones."""
        number, count = self.shard
        return tuple(self.files)[number - 1 :: count]

    def path(self, folder: Path) -> Path:
        """Name the plan's own file."""
        return folder / f"plan-{_digest([self.files, self.shard])}.json"

    def write(self, folder: Path, totals: Totals | None = None) -> None:
        """Write the plan, whole or not at all; EnvironmentFailed if it can't be."""
        data = {"schema": SCHEMA} | asdict(replace(self, totals=totals))
        try:
            write_atomically(self.path(folder), json.dumps(data, indent=1) + "\n")
        except OSError as error:
            raise EnvironmentFailed(f"{folder} can't be written: {error.strerror}", "choose another place") from error

    def answered(self, folder: Path, version: str) -> Path:
        """Name the journal of a release that was answered."""
        return folder / f"{self.files[version]}.ndjson"

    def failed(self, folder: Path, version: str) -> Path:
        """Name the journal of a release that could not be."""
        return folder / f"{self.files[version]}.failed.ndjson"

    def part(self, folder: Path, version: str) -> Path:
        """Name the journal of a release that is being asked."""
        return folder / f"{self.files[version]}.part"


@contextmanager
def alone(folder: Path, engine: str) -> Iterator[None]:
    """Keep the results of an engine in a folder to oneself while the block runs; EnvironmentFailed: another has."""
    with ExitStack() as holding:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            holding.enter_context(locked(folder / f".{engine}.lock", wait=False))
        except BlockingIOError:
            hint = "wait until it has ended, or give --results a folder of its own"
            raise EnvironmentFailed(f"another run keeps its results of {engine} in {folder}", hint) from None
        except OSError as error:
            raise EnvironmentFailed(f"{folder} can't be written: {error.strerror}", "choose another place") from error
        yield


def plans(folder: Path) -> list[Plan]:
    """Read what was asked last of each shard that ran in a folder, newest first.

    EnvironmentFailed if there is none, or a plan can't be read.
    """
    found = sorted((_read(path) for path in folder.glob("plan-*.json")), key=lambda plan: plan.at)
    if not found:
        raise EnvironmentFailed(f"{folder} holds no results of a matrix", "give the --results of each shard")
    return list({(plan.engine, plan.shard): plan for plan in found}.values())[::-1]


def _read(path: Path) -> Plan:
    try:
        data = json.loads(path.read_text("utf-8"))
        if data.pop("schema") != SCHEMA:
            raise EnvironmentFailed(f"{path} is of another turngate", "merge with the one that made it")
        data |= {"clauses": tuple(data["clauses"]), "shard": tuple(data["shard"])}
        totals = data.pop("totals")
        return Plan(**data, totals=totals and Totals(**totals))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EnvironmentFailed(f"the plan {path} can't be read: {error}", "run that shard again") from error


def _digest(data: Any) -> str:
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()[:KEY_LENGTH]
