"""Measurements in a file: those of the last run, those of the page, and an older one to compare with."""

import os
import platform
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from tests.bench.rows import Measured
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


class Row(Struct, frozen=True, forbid_unknown_fields=True):
    """A measured row, its unit, its day, and how many cores other work kept busy at its start."""

    measured: Measured
    unit: str
    day: str
    busy: float


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

    def updated(self, newer: "Measurement") -> "Measurement":
        """Return this with the newer rows."""
        others = tuple(row for row in self.rows if row.measured.name not in newer.measured)
        return msgspec.structs.replace(self, rows=others + newer.rows)


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
        return msgspec.json.decode(path.read_bytes(), type=Measurement)
    except OSError as error:
        raise ValueError(f"can't read {path}: {error.strerror}") from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ValueError(f"{path} is not a measurement of make bench: {error}") from error


def save(path: Path, measurement: Measurement) -> None:
    """Write a file, one value per line, so that a diff shows which rows changed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(measurement), indent=1) + b"\n")


def _cpu() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(models, platform.processor() or "an unknown processor")
