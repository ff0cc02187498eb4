"""Probes releases: runs every case of each within the cores, judges as cases end, and journals it all."""

import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path

from turngate.errors import TurngateError
from turngate.redact import redact
from turngate.verdict import ClauseResult, capability, profile, verdict
from turngate_probes import recordings
from turngate_probes.cases import BACKEND_AWAY, CASES, Case
from turngate_probes.clauses import judge_all
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.events import clause_event, page_event, turn_event
from turngate_probes.fingerprint import difference, fingerprint
from turngate_probes.interrupt import CaseStoppedError, Interrupt
from turngate_probes.journal import SCHEMA, Journal
from turngate_probes.lab import Lab
from turngate_probes.machine import machine
from turngate_probes.observe import Page, Seen, Turn
from turngate_probes.releases import default_cache
from turngate_probes.sandbox import Sandbox, sandbox
from turngate_probes.slots import Slots
from turngate_probes.stub_model import refused_port
from turngate_probes.targets import Release, Target, resolve

LEVELS = {"static": ("static",), "hermetic": ("static", "hermetic")}
WAITING_PER_SLOT = 4
KEPT_JOURNALS = 20


@dataclass(frozen=True, slots=True)
class Settings:
    """How to probe: the level, how many engines at once, where sandboxes lie and whether they stay."""

    level: str
    jobs: int
    sandboxes: Path
    keep: bool
    strict: bool


class Probe:
    """Everything that the releases of one probe share."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        """Prepare; nothing runs yet."""
        self.settings, self.journal, self.interrupt = settings, journal, Interrupt()
        self.busy, self.waiting = Slots(settings.jobs), Slots(settings.jobs * WAITING_PER_SLOT)

    def run(self, targets: Sequence[Target]) -> None:
        """Resolve and probe all targets side by side; what goes wrong with one leaves the others alone."""
        started = time.monotonic()
        self.journal.add(
            "probe.started", schema=SCHEMA, turngate=metadata.version("turngate"), machine=machine(),
            level=self.settings.level, strict=self.settings.strict, cores=os.cpu_count() or 1,
        )  # fmt: skip
        with ThreadPoolExecutor(max(1, len(targets)), thread_name_prefix="release") as pool:
            seconds = sum(pool.map(self._probe, targets))
        self.journal.add(
            "probe.finished",
            seconds=round(time.monotonic() - started, 3),
            engine_seconds=round(seconds, 3),
            interrupted=self.interrupt.is_set(),
        )

    def _probe(self, target: Target) -> float:
        try:
            release = resolve(target, lambda text: self.journal.add("install.progress", release=str(target), text=text))
        except TurngateError as failed:
            hint = getattr(failed, "hint", "")
            what = getattr(failed, "what", "") or getattr(failed, "message", "") or str(failed)
            self.journal.add("release.failed", release=str(target), what=what, hint=hint)
            return 0.0
        return ReleaseProbe(self, release).run()


@dataclass
class ReleaseProbe:
    """The probe of one release."""

    probe: Probe
    release: Release
    seen: Seen = field(init=False)
    results: dict[str, ClauseResult] = field(default_factory=dict)
    _done: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _cpu: float = 0.0

    def __post_init__(self) -> None:
        """Begin with what recordings show, or with nothing."""
        self.seen = Seen(self.release.contract)

    def run(self) -> float:
        """Run, judge and journal; gives the engine's CPU seconds."""
        started = time.monotonic()
        cases = self._cases()
        self._journal(
            "release.planned", engine=self.release.engine, version=self.release.version, source=self.release.source,
            executable=self.release.executable and str(self.release.executable), note=self.release.note,
            contract_version=self.release.contract.contract_version, turns=sum(case.steps for case in cases),
        )  # fmt: skip
        if self.release.executable is None:
            self._replay()
        else:
            self._run_cases(cases, self.release.executable)
        self._judge({case.name for case in CASES} | {EVERYTHING})
        self._finish(time.monotonic() - started)
        return self._cpu

    def _cases(self) -> list[Case]:
        levels = LEVELS[self.probe.settings.level]
        return [case for case in CASES if case.level in levels] if self.release.executable else []

    def _replay(self) -> None:
        self.seen = recordings.replay(self.release.contract)
        for turn in self.seen.turns.values():
            self._journal("turn", **turn_event(turn, {}))

    def _run_cases(self, cases: Sequence[Case], executable: Path) -> None:
        before = fingerprint(executable)
        self.seen.hosts = set()
        with ThreadPoolExecutor(max(1, len(cases)), thread_name_prefix="case") as pool:
            for outcome in [pool.submit(self._run_case, i, case, executable) for i, case in enumerate(cases)]:
                outcome.result()
        self.seen.changed = difference(before, executable)

    def _run_case(self, priority: int, case: Case, executable: Path) -> None:
        slots = self.probe.waiting if case.waits else self.probe.busy
        try:
            with self._sandbox(case) as box:
                note = lambda item: self._note(item, box)  # noqa: E731 - binds the sandbox
                lab = Lab(
                    case.name, self.release.contract, executable, box,
                    lambda: slots.held(priority), self.probe.interrupt, note,
                )  # fmt: skip
                try:
                    case.play(lab)
                finally:
                    with self._lock:
                        self.seen.hosts = (self.seen.hosts or set()) | {
                            redact(each.host) for each in box.backend.egress()
                        }
        except (CaseStoppedError, TurngateError) as stopped:
            self.seen.stopped[case.name] = str(stopped)
        with self._lock:
            self._done.add(case.name)
            self._judge(self._done)

    @contextmanager
    def _sandbox(self, case: Case) -> Iterator[Sandbox]:
        settings, hermetic = self.probe.settings, self.release.contract.hermetic
        parent = settings.sandboxes / self.release.name if settings.keep else settings.sandboxes
        if case.name != BACKEND_AWAY:
            with sandbox(hermetic, parent, case.name, keep=settings.keep) as box:
                yield box
            return
        with (
            refused_port() as port,
            sandbox(hermetic, parent, case.name, keep=settings.keep, model_url=f"http://127.0.0.1:{port}") as box,
        ):
            yield box

    def _note(self, item: Turn | Page, box: Sandbox) -> None:
        with self._lock:
            self._cpu += item.cpu_seconds
            if isinstance(item, Turn):
                self.seen.turns[item.name] = item
            else:
                self.seen.pages[item.name] = item
        places = {**box.places(), str(self.release.executable): self.release.contract.executable}
        describe = turn_event(item, places) if isinstance(item, Turn) else page_event(item, places)
        self._journal("turn" if isinstance(item, Turn) else "page", **describe)

    def _judge(self, done: set[str]) -> None:
        levels = LEVELS[self.probe.settings.level]
        for result in judge_all(self.seen, self.results, levels, done):
            self._journal("clause", **clause_event(result))

    def _finish(self, seconds: float) -> None:
        results = tuple(self.results.values())
        found = capability(results)
        session = next((t.reading.session for t in self.seen.turns.values() if t.reading.session), None)
        self._journal(
            "release.finished",
            verdict=verdict(results, recordings_only=self.release.executable is None).value,
            profile=asdict(profile(found)), capability=asdict(found), handle=session and asdict(session),
            seconds=round(seconds, 3), engine_seconds=round(self._cpu, 3),
            turns=len(self.seen.turns), unverified=list(self.release.contract.unverified),
        )  # fmt: skip

    def _journal(self, kind: str, **fields: object) -> None:
        self.probe.journal.add(kind, release=self.release.name, **fields)


def default_jobs() -> int:
    """One engine a core, and one more to fill the gaps in which they wait."""
    return (os.cpu_count() or 1) + 1


def sandboxes_path(keep: Path | None) -> Path:
    """Where sandboxes lie: not under the system's temporary directory, which some engines distrust."""
    return keep.absolute() if keep else default_cache() / "sandboxes"


def journal_path(keep: Path | None) -> Path:
    """Where the journal of a probe that starts now lies; of those in the cache the newest are kept."""
    if keep:
        return keep.absolute() / "probe.ndjson"
    folder = default_cache() / "probes"
    old = sorted(folder.glob("*.ndjson"))[:-KEPT_JOURNALS]
    for path in old:
        path.unlink(missing_ok=True)
    return folder / f"{time.strftime('%Y%m%dT%H%M%SZ', time.gmtime())}-{os.getpid()}.ndjson"
