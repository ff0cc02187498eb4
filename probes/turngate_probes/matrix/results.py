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
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from turngate.contract import load
from turngate.contract.clauses import Level
from turngate.errors import EnvironmentFailed
from turngate.files import locked, write_atomically
from turngate_probes.harness.resource_usage import Machine, machine
from turngate_probes.journal.events import Origin
from turngate_probes.releases.registry import Registry

SCHEMA = "turngate.matrix-plan/1"
KEY_LENGTH = 12


class Totals(Struct, frozen=True):
    """How a run of a matrix ended; what was kept from earlier runs is not in it."""

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
        asked = [contract.document.data, repr(load.catalogue()), turngate, level, sorted(clauses)]
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
            raise _unwritable(folder, error) from error
        yield


def plans(folder: Path) -> list[Plan]:
    """Read what was asked last of each shard that ran in a folder, newest first.

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
