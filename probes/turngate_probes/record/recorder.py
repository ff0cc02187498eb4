"""Runs every case on a release, and saves its turns and pages as recordings."""

import os
import shutil
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

from msgspec import Struct, field, to_builtins

from turngate import Ended, MachineError, UsageError
from turngate.argv.file_slot import SLOT
from turngate.contract.clauses import Reason
from turngate.process.supplied_files import supplied_folder
from turngate_probes.harness.cases import Case
from turngate_probes.harness.interrupt import Interrupt, Obstacle
from turngate_probes.harness.observations import CaseEnd, CommandOutput, Observation, Turn
from turngate_probes.harness.resource_usage import Machine, machine
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.harness.sandbox import Sandbox, claimed
from turngate_probes.record.files import rendered, to_yaml
from turngate_probes.releases.source import Release


class RecordingSummary(Struct, frozen=True):
    """The number of recorded turns and pages, the cases that ended early, and the folder.

    `early` maps the name of a case to the reason. `repeated` are the cases that were recorded again, because a turn
    had reached its deadline.
    """

    written: int
    early: dict[str, str]
    folder: Path
    repeated: tuple[str, ...] = ()


class _Recorder(Struct):
    """Collects observations, and writes each case when it has ended."""

    release: Release
    into: Path
    note: str = ""
    observed: dict[str, list[Turn | CommandOutput]] = field(default_factory=lambda: defaultdict(list))
    early: dict[str, str] = field(default_factory=dict)
    written: int = 0
    unfit: Obstacle | None = None
    _places: dict[str, dict[str, str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _machine: Machine = field(default_factory=machine)

    def saw(self, item: Observation, box: Sandbox) -> None:
        with self._lock:
            if isinstance(item, Turn | CommandOutput):
                self.observed[item.case].append(item)
                self._places[item.case] = places(self.release, box)

    def ended(self, end: CaseEnd) -> None:
        with self._lock:
            if end.why_early is not None:
                self.early[end.case] = end.why_early.text
                self.unfit = end.why_early if end.why_early.reason is Reason.WRAPPER else self.unfit
            observed, known = self.observed[end.case], self._places.get(end.case, {})
        for item, (name, files) in zip(
            observed, rendered(self.release.contract, end.case, observed, known), strict=True
        ):
            folder = self.into / name
            folder.mkdir(parents=True)
            for file, content in (files | {"provenance.yaml": to_yaml(self._provenance(item))}).items():
                (folder / file).write_bytes(content)
        with self._lock:
            self.written += len(observed)

    def late(self, case: Case) -> bool:
        """Whether a turn reached its deadline that only a busy machine or an engine that hangs lets it reach."""
        turns = [item for item in self.observed[case.name] if isinstance(item, Turn) and item.stdin != "open"]
        return not case.backend_away and any(turn.ended is Ended.TIMEOUT for turn in turns)

    def forget(self, case: Case) -> None:
        """Remove what was recorded of a case."""
        self.written -= len(self.observed.pop(case.name, ()))
        self.early.pop(case.name, None)
        for folder in self.into.glob(f"{case.name}-*"):
            shutil.rmtree(folder)

    def _provenance(self, item: Turn | CommandOutput) -> dict[str, Any]:
        at, timed = time.time(), dict[str, float]()
        if isinstance(item, Turn):  # its duration, and how long its engine ran after it
            at, timed = item.finished_at, {"seconds": round(item.seconds, 3)}
            timed |= {} if item.exit_seconds is None else {"exit_seconds": round(item.exit_seconds, 3)}
        return {
            "release": f"{self.release.engine} {self.release.version}",
            "how": "the real release in a sandbox, against the stub model backend",
            **({"note": self.note} if self.note else {}),
            "recorded": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)),
            **timed,
            "cpu_seconds": round(item.cpu_seconds, 3),
            "machine": to_builtins(self._machine),
            "contract_version": self.release.contract.contract_version,
            "turngate": metadata.version("turngate"),
        }


def record(
    release: Release, cases: Sequence[Case], runner: CaseRunner, fixtures: Path, interrupt: Interrupt, note: str = ""
) -> RecordingSummary:
    """Record a release into `fixtures/<engine>/<version>`, and replace existing recordings of these cases.

    Those of an output mode other than the default one are in a folder there with its name.

    `note` is saved in the provenance of each recording.
    Cases with a turn that reached its deadline are recorded again, one after the other.
    Nothing there is touched before all cases have ended. Raises TurngateError if the release has no
    executable or no version, if the recording was interrupted, if the machine is too busy, or if no turn could be run.
    """
    if release.executable is None:
        raise UsageError(f"{release.name} can't be recorded", "choose a release that has an executable")
    if release.version is None:
        hint = "check its contract: `turngate probe` with `--clause version.readable` shows what it prints"
        raise UsageError(f"{release.name} can't be recorded without a version ({release.note})", hint)
    folder = fixtures / release.engine / release.version / (release.output or "")
    with claimed(runner.sandboxes, "recording-") as unfinished:
        recorder = _Recorder(release, unfinished, note)
        runner.play(release.contract, release.executable, cases, recorder)
        late = [case for case in cases if recorder.late(case)]
        for case in late:
            recorder.forget(case)
            runner.play(release.contract, release.executable, [case], recorder)
        if interrupt.is_set():
            raise MachineError("the recording was interrupted", "nothing was changed; run it again")
        if busy() and (again := ", ".join(case.name for case in late if recorder.late(case))):
            what = f"turns of {again} reached their deadline twice, and the machine is busy"
            raise MachineError(what, "nothing was changed; run it again when the machine is idle")
        if recorder.unfit:
            raise UsageError(recorder.unfit.text, recorder.unfit.hint)
        if recorder.early and not recorder.written:
            what = f"no turn of {release.name} could be recorded: {next(iter(recorder.early.values()))}"
            raise MachineError(what, "earlier recordings stay; remove the cause, then run it again")
        put_in_place(folder, unfinished, [case.name for case in cases])
    return RecordingSummary(recorder.written, recorder.early, folder, tuple(case.name for case in late))


def busy() -> bool:
    """Whether more processes want to run than there are cores; a single engine alone does not reach that."""
    return os.getloadavg()[0] > (os.cpu_count() or 1)


def places(release: Release, box: Sandbox) -> dict[str, str]:
    """Return the placeholders in recordings for paths and addresses of this machine."""
    executable = release.executable or Path()
    modules = [path.parent for path in executable.parents if path.name == "node_modules"]
    installed = {str(modules[-1]): "<installed>"} if modules else {str(executable.parent): "<installed>"}
    known = {**installed, str(executable): release.contract.executable, f"{Path.home()}/": "<home>/"}
    known |= {str(executable.resolve()): release.contract.executable}
    if files := release.contract.guards.files:
        known[str(supplied_folder(files))] = SLOT
    for url in (box.backend.url, box.model_url):
        known[url.removeprefix("http://")] = "127.0.0.1:1"
    return known | {str(box.root): "<sandbox>", str(box.shared): "<shared>"}


def put_in_place(folder: Path, new: Path, cases: Sequence[str]) -> None:
    """Move the turns in `new` to the recordings in `folder`, and replace those of these cases."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        if old.name.startswith(tuple(f"{case}-" for case in cases)):
            shutil.rmtree(old)
    for turn in new.iterdir():
        shutil.move(turn, folder / turn.name)
