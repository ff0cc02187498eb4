"""Probes releases: runs the cases of each release, judges them as they end, and journals everything."""

import os
import re
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from turngate import MachineError, TurngateError, UsageError, load_contract
from turngate.contract.clauses import NEWEST_SET, Reason, Result
from turngate.contract.verdict import ClauseResult, Verdict, capability, profile, verdict
from turngate.files import default_cache
from turngate.process.copied_values import CopiedValues, copied_values
from turngate.process.executable import difference, fingerprint, identity
from turngate.process.probe_results import ProbeResult, save_result
from turngate_probes.clauses import judge_all
from turngate_probes.clauses.checks import LEVELS
from turngate_probes.clauses.process import EVERYTHING
from turngate_probes.harness.cases import CASES, longest_wait
from turngate_probes.harness.interrupt import CaseStoppedError, Obstacle
from turngate_probes.harness.observations import CaseEnd, CommandOutput, Observation, Observations, ServerCall, Turn
from turngate_probes.harness.resource_usage import machine
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.harness.sandbox import Sandbox, save_streams, with_copied
from turngate_probes.journal import events
from turngate_probes.journal.journal import Journal, seen_event
from turngate_probes.probe_settings import ProbeSettings
from turngate_probes.record import replay
from turngate_probes.releases.source import Release, ReleaseSource, UnfitWrapperError
from turngate_probes.releases.target import Target
from turngate_probes.server_level.cases import SERVER_CASES


class Probe:
    """Everything that the releases of one probe share."""

    def __init__(
        self,
        settings: ProbeSettings,
        journal: Journal,
        runner: CaseRunner,
        source: ReleaseSource | None = None,
        *,
        builds: bool = False,
    ) -> None:
        """Probe on `runner`, which other probes may share. With `builds`, release keys include the executable."""
        self.settings, self.journal, self._source = settings, journal, source or ReleaseSource()
        self.runner, self.interrupt = runner, runner.interrupt
        self._builds, self._keys, self._lock = builds, Counter[str](), threading.Lock()

    def run(self, targets: Sequence[Target | Release], skipped: tuple[events.SkippedEngine, ...] = ()) -> None:
        """Probe all targets in parallel; an error in one does not affect the others.

        The caller already holds targets that are releases. `skipped` goes into the journal.
        """
        started = time.monotonic()
        self._builds |= len({target.engine for target in targets}) < len(targets)
        self.journal.add(
            events.ProbeStarted(
                turngate=metadata.version("turngate"),
                machine=machine(),
                level=self.settings.level,
                fail_on=self.settings.fail_on,
                cores=os.cpu_count() or 1,
                clauses=tuple(sorted(self.settings.asked() or ())),
                clause_set=NEWEST_SET,
                skipped=skipped or UNSET,
                resume=self.settings.resume,
                server=self.settings.server,
            )
        )
        with ThreadPoolExecutor(max(1, len(targets)), thread_name_prefix="release") as pool:
            cpu_seconds = sum(pool.map(self._probe, targets))
        seconds, stopped = round(time.monotonic() - started, 3), self.interrupt.is_set()
        engine_seconds = round(cpu_seconds, 3)
        self.journal.add(events.ProbeFinished(seconds=seconds, engine_seconds=engine_seconds, interrupted=stopped))

    def _probe(self, target: Target | Release) -> float:
        if isinstance(target, Release):
            return ReleaseProbe(self, target, self._key(target)).run()

        def say(text: str) -> None:
            step = text.removeprefix(f"{target.engine} {target.version}: ")
            self.journal.add(events.InstallProgress(release=str(target), text=step))

        with ExitStack() as holding:
            try:
                with self.interrupt.scope() as stop:
                    release = holding.enter_context(self._source.held(target, say, stop))
            except CaseStoppedError as stopped:
                self._unanswered(target, Reason.INTERRUPTED, str(stopped), "")
            except UnfitWrapperError as failed:
                self._unanswered(target, Reason.WRAPPER, failed.what, failed.hint)
            except (MachineError, UsageError) as failed:
                self._unanswered(target, Reason.NO_EXECUTABLE, failed.what, failed.hint)
            except TurngateError as failed:
                self._unanswered(target, Reason.CONTRACT, str(failed), "")
            else:
                return ReleaseProbe(self, release, self._key(release)).run()
        return 0.0

    def _unanswered(self, target: Target, reason: Reason, what: str, hint: str) -> None:
        """Journal a release that can't be probed."""
        key = self._key(target)
        self.journal.add(
            events.ReleasePlanned(
                release=key,
                engine=target.engine,
                version=target.version,
                executable=str(target.path) if target.path else None,
                source="path" if target.path else self._source.origin(target.engine),
                contract_version=load_contract(target.engine).contract_version,
                turns=0,
                note="",
            )
        )
        self.journal.add(events.ReleaseFailed(release=key, reason=reason, what=what, hint=hint))

    def _key(self, subject: Target | Release) -> str:
        """Return a key for a release, numbered if another release of this probe has the same."""
        name = str(subject)
        if isinstance(subject, Release):
            name = subject.build if self._builds and not subject.output else subject.name
            name += f" ({subject.output})" if subject.output else ""
        with self._lock:
            self._keys[name] += 1
            return name if self._keys[name] == 1 else f"{name} ({self._keys[name]})"


class ReleaseProbe:
    """The probe of one release: observes its cases, judges them, and journals both."""

    def __init__(self, probe: Probe, release: Release, key: str) -> None:
        self.probe, self.key, self._bare = probe, key, release.contract
        copies = probe.settings.resume or probe.settings.my_settings
        self._copied = copied_values(release.contract, os.environ) if copies else CopiedValues()
        self.release = replace(release, contract=with_copied(release.contract, self._copied))
        self.observed = Observations(self.release.contract)
        self.results: dict[str, ClauseResult] = {}
        self._done = set[str]()
        self._lock = threading.Lock()
        self._cpu = 0.0

    def run(self) -> float:
        """Run, judge and journal; return the engine's CPU seconds."""
        started = time.monotonic()
        executable = self.release.executable
        cases = self.probe.settings.cases() if executable else []
        known = identity(executable) if executable else ""
        contract = self.release.contract
        self.probe.journal.add(
            events.ReleasePlanned(
                release=self.key,
                engine=self.release.engine,
                version=self.release.version,
                executable=str(executable) if executable else None,
                source=self.release.source,
                note=self.release.note,
                contract_version=contract.contract_version,
                turns=sum(case.turns(contract) for case in cases),
                integrity=self.release.integrity,
                output=self.release.output,
                waits=longest_wait(cases, contract) or UNSET,
                settings=self._copied.names if self.probe.settings.my_settings else UNSET,
                asked_model=contract.hermetic.model if contract.launch.model else UNSET,
                default_model=contract.hermetic.default_model or UNSET,
                no_default_model=contract.hermetic.no_default_model or UNSET,
            )
        )
        if executable is None:
            self._replay()
        else:
            before = fingerprint(executable)
            self.observed.hosts = set()
            self._runner().play(self.release.contract, executable, cases, self)
            failed = next((why for why in self.observed.stopped.values() if why.reason is Reason.WRAPPER), None)
            if failed := failed or self._moved(executable, known):
                reason = failed.reason or Reason.MACHINE
                self.probe.journal.add(
                    events.ReleaseFailed(release=self.key, reason=reason, what=failed.text, hint=failed.hint)
                )
                return self._cpu
            self.observed.changed = difference(before, executable)
        self._judge(self._every_case())
        if executable and self.probe.settings.my_settings and self._copied.names:
            self._leave_settings_out(executable)
        finished = self._finished(time.monotonic() - started)
        self._save(finished, known)
        self.probe.journal.add(finished)
        return self._cpu

    def _runner(self) -> CaseRunner:
        """Return the runner; kept sandboxes of builds with the same version get separate folders."""
        runner, build = self.probe.runner, re.sub(r"[^\w.]+", "-", self.key.removeprefix(self.release.name)).strip("-")
        return replace(runner, sandboxes=runner.sandboxes / build) if runner.keep and build else runner

    def saw(self, item: Observation, box: Sandbox) -> None:
        """Save and journal an observation."""
        if self.probe.settings.resume and isinstance(item, Turn):
            # other records beside that with the id are explained by the user's settings
            handle = replace(item.reading.handle, displaced="")
            item = replace(item, reading=replace(item.reading, handle=handle))
        with self._lock:
            self._cpu += 0.0 if isinstance(item, ServerCall) else item.cpu_seconds
            self.observed.saw(item)
        if self.probe.settings.keep:
            save_streams(item, box.root)
        places = {**box.places(), str(self.release.executable): self.release.contract.executable}
        self.probe.journal.add(seen_event(self.key, item, places, self.release.contract))

    def ended(self, end: CaseEnd) -> None:
        """Judge what can be judged now that a case has ended."""
        with self._lock:
            self.observed.ended(end)
            if end.why_early and end.why_early.reason is Reason.WRAPPER:
                return
            self._done.add(end.case)
            self._judge(self._done)

    def _leave_settings_out(self, executable: Path) -> None:
        """Test what fails or deviates once more without the user's settings, and journal what that shows."""
        amiss = (Result.FAIL, Result.DEVIATES)
        asked = tuple(clause for clause, result in self.results.items() if result.result in amiss)
        if not asked or self.probe.interrupt.is_set():
            return
        settings, seen = replace(self.probe.settings, clauses=asked), Observations(self._bare, hosts=set())
        runner = self._runner()
        runner = replace(runner, sandboxes=runner.sandboxes / "without-settings") if runner.keep else runner
        runner.play(self._bare, executable, settings.cases(), seen)
        commands: list[Turn | CommandOutput] = [*seen.turns.values(), *seen.pages.values()]
        self._cpu += sum(command.cpu_seconds for command in commands)
        results = dict[str, ClauseResult]()
        judge_all(seen, results, LEVELS[settings.level], self._every_case(), settings.asked())
        found = {clause: results[clause].result for clause in asked if clause in results}
        self.probe.journal.add(events.WithoutSettings(release=self.key, results=found))

    def _every_case(self) -> set[str]:
        return {case.name for case in (*CASES, *SERVER_CASES, *self.probe.settings.more)} | {EVERYTHING}

    def _moved(self, executable: Path, known: str) -> Obstacle | None:
        """Return what changed while turns with the user's settings ran, so that they show nothing."""
        if not (self.probe.settings.resume or self.probe.settings.my_settings):
            return None
        try:
            what = "" if identity(executable) == known else "the executable was replaced during the probe"
        except OSError as gone:
            what = f"the executable is missing: {gone.strerror}"
        if copied_values(self.release.contract, os.environ) != self._copied:
            what = "settings of the user changed during the probe"
        return Obstacle(what, Reason.MACHINE, hint="probe it again") if what else None

    def _save(self, finished: events.ReleaseFinished, known: str) -> None:
        """Save the verdict on an executable of this identity for the reference server.

        Saves nothing without an executable or a verdict, or if a test that decides about resuming is missing.
        """
        release, settings, able = self.release, self.probe.settings, finished.capability
        whole = "hermetic" in LEVELS[settings.level] and not settings.clauses and not self.probe.interrupt.is_set()
        whole = whole and not release.output  # the server uses the default output mode
        if release.executable is None or finished.verdict is Verdict.UNANSWERED or not able or not whole:
            return
        save_result(
            ProbeResult(
                engine=release.engine,
                executable=os.path.realpath(release.executable),
                identity=known,
                version=release.version,
                contract_version=release.contract.contract_version,
                settings=self._copied.digest,
                verdict=finished.verdict,
                clause_set=NEWEST_SET,
                level=settings.level,
                capability=able,
                at=datetime.now(UTC),
                turngate=metadata.version("turngate"),
            ),
            default_cache(),
        )

    def _replay(self) -> None:
        if "server" in LEVELS[self.probe.settings.level]:
            self.observed.absent = Obstacle("no executable to run", Reason.NO_EXECUTABLE)
            return
        self.observed = replay.replay(self.release.contract)
        observed: list[Observation] = [*self.observed.pages.values(), *self.observed.turns.values()]
        for item in observed:
            self.probe.journal.add(seen_event(self.key, item, {}))

    def _judge(self, done: set[str]) -> None:
        levels = LEVELS[self.probe.settings.level]
        for result in judge_all(self.observed, self.results, levels, done, self.probe.settings.asked()):
            self.probe.journal.add(events.ClauseEvent.about(self.key, result))

    def _finished(self, seconds: float) -> events.ReleaseFinished:
        """Weigh the results once; everything later reads the verdict from this event."""
        results, settings = self.results.values(), self.probe.settings
        # selected clauses say nothing about the whole release
        able = None if settings.clauses else capability(results)
        only_recorded = self.release.executable is None
        weighed = verdict(results, recordings_only=only_recorded) if settings.asked() is None else None
        session = next((t.reading.session for t in self.observed.turns.values() if t.reading.session), None)
        return events.ReleaseFinished(
            release=self.key,
            profile=profile(able) if able else None,
            capability=able,
            verdict=weighed,
            handle=session,
            seconds=round(seconds, 3),
            engine_seconds=round(self._cpu, 3),
            turns=len(self.observed.turns),
            unverified=tuple(self.release.contract.unverified),
            hosts=self._hosts(),
        )

    def _hosts(self) -> tuple[str, ...] | UnsetType:
        observed = self.observed
        if observed.hosts is None:
            return UNSET
        registries = ["<package-registry>"] if observed.registries else []
        return tuple(sorted([*(observed.hosts - observed.registries), *registries]))
