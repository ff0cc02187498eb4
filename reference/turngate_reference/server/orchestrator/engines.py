"""The engines of this machine, examined in the background and held in memory."""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from turngate import EngineContract, MachineError, NotInstalledError, Stop, UsageError, engine_names, find_executable
from turngate.contract.cached import cached_contract
from turngate.contract.verdict import Verdict, profile
from turngate.files import default_cache
from turngate.model import EngineInteractiveProfile, EngineResumeCapability, ProfileKind
from turngate.process.executable import identity, is_simulated
from turngate.process.installed_release import place_to_ask
from turngate.process.probe_results import ProbeResult, last_result
from turngate_reference.data_dir import DataDir
from turngate_reference.engine.attempt import InstalledEngine, contract_for, version_of
from turngate_reference.server.orchestrator.profiles import (
    FAILURES_KEPT,
    Cache,
    Profiles,
    no_sticky_process,
)
from turngate_reference.server.orchestrator.verification import Status, Verify

_CLOSING_GRACE = 15.0
# runs no longer wait for an executable that has changed after this many examinations
_LOOKS = 3
_TIME = "%Y-%m-%dT%H:%M:%SZ"


class NextProfile(Struct, frozen=True):
    """How an engine's next interactive run would wait, and why."""

    kind: ProfileKind
    reason: str


class StickyStatus(Struct, frozen=True):
    """How one process of an engine can serve several turns, by its contract."""

    supported: bool
    transport: str
    verified: bool
    asks: bool
    same_id: bool
    own_store: bool
    detail: str


class LostTool(Struct, frozen=True):
    """A tool that interactive turns of a resumable run can't use, and what happens to it."""

    tool: str
    detail: str


class LastProbe(Struct, frozen=True):
    """The latest result of `turngate probe` for an executable, by a set and level of clauses; `at` is its UTC time."""

    verdict: Verdict
    clause_set: str
    level: str
    version: str | None
    at: str
    supported: bool | None


class EngineStatus(Struct, frozen=True, kw_only=True):
    """What is known about an engine, as `Engine` in `openapi.yaml` describes it; None: not known, or not installed."""

    engine: str
    title: str
    contract_version: str
    lifecycle: str
    executable: str | None
    simulated: bool
    version: str | None
    capability: EngineResumeCapability | None
    profile: NextProfile | None
    verified: Status | None
    verified_detail: str | None
    verified_at: str | None
    sticky: StickyStatus
    tools_lost: list[LostTool]
    help_missing: list[str]
    last_probe: LastProbe | None


class Engines:
    """The engine catalogue; `profiles` examines each executable once, in the background.

    `environment` returns what an engine's next run would get; `stop` ends what runs; `settled` is called after each
    examination of an engine.
    """

    def __init__(
        self,
        data: DataDir,
        stop: Stop,
        profiles: Profiles,
        environment: Callable[[EngineContract], Mapping[str, str]],
        settled: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._data, self._stop, self._profiles, self._environment = data, stop, profiles, environment
        self._settled = settled
        self._installed: Cache[InstalledEngine] = Cache(clock)
        self._looking: set[str] = set()
        self._looks_in_vain: Counter[str] = Counter()
        self._news = threading.Condition()

    def find(self, name: str, cwd: Path | None = None) -> InstalledEngine:
        """Find an engine as it is now in the directory of a turn (None: one below the data directory).

        It is not run again while its executable has not changed, unless the release could depend on the directory.
        NotInstalledError: it is not installed. ContractError: it has no contract.
        """
        newest = _newest(name)
        key, path = _place(newest)
        place = place_to_ask(newest, path, cwd or self._data.runs)

        def ask() -> tuple[InstalledEngine, float]:
            try:
                version = version_of(newest, path, self._data, self._environment(newest), self._stop, place)
                contract = contract_for(name, version)
            except (MachineError, UsageError, OSError):
                # it still counts as installed, and is no unsafe release: its run reports that it can't be started
                version, contract = None, replace(newest, some_deviate=())
            engine = InstalledEngine(path, version, contract, key[2], place)
            return engine, FAILURES_KEPT if not version else 0.0 if place else float("inf")

        return ask()[0] if place and cwd else self._installed.get(key, ask)

    def interactive_profile(
        self, engine: InstalledEngine, asked: str | None
    ) -> tuple[EngineInteractiveProfile, EngineResumeCapability]:
        """Return how an interactive run that starts now would wait; `asked` is the profile that it requests.

        This may read help pages, which takes seconds.
        """
        return self._profiles.choose(engine, self._environment(engine.contract), session_timeout_sec=0, asked=asked)

    def collect(self) -> None:
        """Examine all installed engines in parallel; return when that is done."""
        # an examination that has begun already may have missed what was installed since
        self._wait(None)
        for engine in engine_names():
            self._begin(engine)
        self._wait(None)

    def unsettled(self, engines: Iterable[str]) -> set[str]:
        """Return the engines not yet known to resume or not; start examining new ones. Never blocks."""
        verifies = self._profiles.verifier.mode is not Verify.OFF
        return {engine for engine in engines if self._is_unsettled(engine)} if verifies else set()

    def close(self) -> None:
        """Wait until nothing runs, for some seconds at most; `stop` must be set."""
        self._wait(_CLOSING_GRACE)

    def every(self, patience: float = 2.0) -> list[EngineStatus]:
        """Describe every contracted engine.

        New executables are examined in the background; their version is awaited for at most
        `patience` seconds. What is not known by then is null.
        """
        with self._news:
            self._news.wait_for(lambda: self._stop.is_set() or self._all_seen(), patience)
        return [self._status(engine) for engine in engine_names()]

    def _wait(self, seconds: float | None) -> None:
        with self._news:
            self._news.wait_for(lambda: not self._looking, seconds)

    def _seen(self, engine: str) -> tuple[Path | None, InstalledEngine | None]:
        """Return an engine's executable (None if not installed), and what is known about it (None if nothing yet)."""
        with suppress(MachineError):
            key, path = _place(_newest(engine))
            return path, self._installed.peek(key)
        return None, None

    def _all_seen(self) -> bool:
        """Whether every installed engine has been asked for its version; starts asking the others."""
        seen = {engine: self._seen(engine) for engine in engine_names()}
        unseen = [engine for engine, (path, installed) in seen.items() if path and not installed]
        for engine in unseen:
            self._begin(engine)
        return not unseen

    def _is_unsettled(self, engine: str) -> bool:
        path, installed = self._seen(engine)
        is_pending = installed is None or self._profiles.verifier.is_pending(installed)
        if path is None or not is_pending or self._looks_in_vain[engine] >= _LOOKS:
            return False
        self._begin(engine)
        return True

    def _begin(self, engine: str) -> None:
        """Examine an engine in the background, unless it is already being examined."""
        with self._news:
            if engine in self._looking or self._stop.is_set():
                return
            self._looking.add(engine)
        try:
            threading.Thread(target=self._look, args=(engine,), name=f"turngate-look-{engine}", daemon=True).start()
        except (RuntimeError, MemoryError):  # no thread is free: whoever asks again tries again
            with self._news:
                self._looking.discard(engine)
                self._news.notify_all()
            raise

    def _look(self, engine: str) -> None:
        settled = False
        try:
            with suppress(MachineError, UsageError):
                installed = self.find(engine)
                with self._news:
                    self._news.notify_all()
                self._profiles.learn(installed)
                settled = not self._profiles.verifier.is_pending(installed)
        finally:
            with self._news:
                self._looks_in_vain[engine] = 0 if settled else self._looks_in_vain[engine] + 1
                self._looking.discard(engine)
                self._news.notify_all()
            self._settled()

    def _status(self, name: str) -> EngineStatus:
        """Describe an engine without running it."""
        executable, engine = self._seen(name)
        contract = engine.contract if engine else _newest(name)
        simulated = executable is not None and is_simulated(executable)
        verified = self._profiles.verifier.status(engine) if executable else None
        able = self._profiles.known(engine) if engine else None
        last = last_result(contract, engine.executable, "", default_cache()) if engine else None
        return EngineStatus(
            engine=contract.engine,
            title=contract.title,
            contract_version=contract.contract_version,
            lifecycle=contract.lifecycle.status,
            executable=str(executable) if executable else None,
            simulated=simulated,
            version=engine.version if engine else None,
            capability=able,
            profile=NextProfile(profile(able).kind, able.detail) if able else None,
            verified=verified.status if verified else None,
            verified_detail=verified.detail if verified else None,
            verified_at=f"{verified.at:{_TIME}}" if verified and verified.at else None,
            sticky=_sticky(contract, simulated=simulated),
            tools_lost=[LostTool(tool, lost.why) for lost in contract.unavailable_tools for tool in lost.tools],
            help_missing=[*self._profiles.help_missing(engine)] if engine else [],
            last_probe=_last_probe(last) if last else None,
        )


def _last_probe(last: ProbeResult) -> LastProbe | None:
    if last.verdict is None:  # only its resume was tested
        return None
    at = f"{last.at:{_TIME}}"
    return LastProbe(last.verdict, last.clause_set, last.level, last.version, at, last.capability.supported)


def _place(contract: EngineContract) -> tuple[tuple[str, str, str], Path]:
    """Find the executable and its identity; NotInstalledError if there is none."""
    path = find_executable(contract)
    try:
        return (contract.engine, str(path), identity(path)), path
    except OSError as gone:
        raise NotInstalledError(f"{path} is missing: {gone.strerror}", "reinstall it") from gone


@cache
def _newest(engine: str) -> EngineContract:
    """Return the contract of an engine for the newest release."""
    return cached_contract(engine)


def _sticky(contract: EngineContract, *, simulated: bool) -> StickyStatus:
    """Describe the sticky process of an engine by its contract."""
    sticky, transport = contract.sticky, contract.sticky.transport
    asks, verified = sticky.interactive is not None, "sticky" not in contract.unverified and not simulated
    why_not = no_sticky_process(contract)
    how = f"{'' if verified else 'not yet '}verified with this release"
    if simulated:
        how = "this engine is simulated, which proves nothing about the real one"
    supported, detail = not why_not, why_not or f"uses {transport}; {how}"
    return StickyStatus(
        supported, transport, supported and verified, asks, sticky.keeps_session_id, sticky.private_store, detail
    )
