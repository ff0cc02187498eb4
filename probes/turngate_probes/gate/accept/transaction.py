"""All or nothing: records a release in a temporary folder, then writes everything, and undoes it on an error."""

import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from msgspec.structs import replace

from turngate import EngineContract, MachineError
from turngate.files import write_atomically
from turngate_probes.harness.cases import RECORDED
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.probe_settings import ProbeSettings
from turngate_probes.record.recorder import RecordingSummary, put_in_place, record
from turngate_probes.releases.source import ReleaseSource
from turngate_probes.releases.target import Target


@contextmanager
def recorded(
    target: Target, source: ReleaseSource, contract: EngineContract, settings: ProbeSettings, interrupt: Interrupt
) -> Iterator[RecordingSummary]:
    """Record a release, from the gate's source and with its new contract, into a folder that lasts for the block."""
    runner = CaseRunner.of(settings.sandboxes, settings.jobs, interrupt)
    with tempfile.TemporaryDirectory(prefix="turngate-accept-") as aside:
        with interrupt.scope() as stop, source.held(target, lambda _: None, stop) as release:
            recording = record(replace(release, contract=contract), RECORDED, runner, Path(aside), interrupt)
        yield recording


def written(changes: Mapping[Path, str], recording: Path, place: Path) -> None:
    """Write files, and move a recording into its place; MachineError, with everything undone, if that fails."""
    kept = recording.with_name("before")
    try:
        before = {path: path.read_bytes() if path.exists() else None for path in changes}
        if place.exists():
            shutil.copytree(place, kept)
        try:
            for path, text in changes.items():
                write_atomically(path, text)
            put_in_place(place, recording, [case.name for case in RECORDED])
        except OSError:
            _taken_back(before, place, kept)
            raise
    except OSError as error:
        what = f"nothing was accepted, because {error.filename or place} can't be written: {error.strerror or error}"
        raise MachineError(what, "free disk space or fix its permissions, and run the gate again") from error


def _taken_back(before: Mapping[Path, bytes | None], place: Path, kept: Path) -> None:
    for path, data in before.items():
        with suppress(OSError):
            if data is None:
                path.unlink(missing_ok=True)
            elif path.read_bytes() != data:
                path.write_bytes(data)
    shutil.rmtree(place, ignore_errors=True)
    if kept.exists():
        with suppress(OSError):
            shutil.copytree(kept, place)
