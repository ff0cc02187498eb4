"""Measurements in a file: those of the last run, those of the page, and an older one to compare with."""

import os
import platform
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from tests.tools.bench.rows import Measured
from turngate.decoding import decode
from turngate.files import write_atomically
from turngate_probes.harness.resource_usage import Machine, machine


class Host(Struct, frozen=True, forbid_unknown_fields=True):
    """The machine that measured; `cpu` is its model."""

    machine: Machine
    cpu: str

    @property
    def text(self) -> str:
        """The machine in words."""
        at = self.machine
        return (
            f"{at.cores} cores of {self.cpu}, {at.memory_gb:.0f} GB of memory, {at.system} {at.arch}, "
            f"Python {at.python}, Node.js {(at.node or 'none').removeprefix('v')}"
        )


class Row(Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """A measured row, its unit, its day, and how many cores other work kept busy at its start.

    `host` is the machine, unless it is the one of the whole measurement.
    """

    measured: Measured
    unit: str
    day: str
    busy: float
    host: Host | None = None


class Measurement(Struct, frozen=True, forbid_unknown_fields=True, rename={"format": "schema"}):
    """The rows measured on one machine, in the full form or the short one."""

    host: Host
    short: bool
    rows: tuple[Row, ...]
    format: Literal["turngate.bench/1"] = "turngate.bench/1"

    @property
    def measured(self) -> dict[str, Measured]:
        """The samples by row."""
        return {row.measured.name: row.measured for row in self.rows}

    def host_of(self, row: Row) -> str:
        """Return the machine of a row in words."""
        return (row.host or self.host).text

    def updated(self, newer: "Measurement", names: Iterable[str]) -> "Measurement":
        """Return the rows of these names in this order: the newer ones, and those of this that were not measured."""
        rows = {row.measured.name: self._seen_from(row, newer.host) for row in self.rows}
        rows |= {row.measured.name: row for row in newer.rows}
        return msgspec.structs.replace(newer, rows=tuple(rows[name] for name in names if name in rows))

    def _seen_from(self, row: Row, host: Host) -> Row:
        elsewhere = self.host_of(row) != host.text
        return msgspec.structs.replace(row, host=(row.host or self.host) if elsewhere else None)


def host() -> Host:
    """Describe this machine."""
    return Host(machine(), _cpu())


def today(measured: Measured, unit: str, busy: float) -> Row:
    """Return a row measured today."""
    return Row(measured, unit, datetime.now(UTC).date().isoformat(), round(busy, 1))


def busy() -> float:
    """Return how many cores were busy during the last minute."""
    return os.getloadavg()[0]


def load(path: Path) -> Measurement:
    """Read a file; ValueError with its name and what is wrong with it."""
    try:
        return decode(path.read_bytes(), Measurement)
    except OSError as error:
        raise ValueError(f"can't read {path}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a measurement of make bench: {error}") from error


def save(path: Path, measurement: Measurement) -> None:
    """Write a file, one value per line, so that a diff shows which rows changed."""
    write_atomically(path, msgspec.json.format(msgspec.json.encode(measurement), indent=1).decode() + "\n")


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or "an unknown processor")
