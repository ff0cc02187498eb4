"""The engines of this machine, looked at in the background and held in memory."""

import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import structs

from turngate.contract import load
from turngate.contract.load import Contract
from turngate.contract.structs import EngineContract
from turngate.contract.verdict import profile
from turngate.errors import EnvironmentFailed
from turngate.files import default_cache
from turngate.process import Stop
from turngate.process.executable import identity, is_simulated
from turngate.process.probe_results import ProbeResult, last_result
from turngate_reference.data_dir import DataDir
from turngate_reference.engine.lookup import InstalledEngine, covering, locate, version_of
from turngate_reference.server.orchestrator.help_survey import Memo
from turngate_reference.server.orchestrator.profiles import Profiles

_FOREVER, _NO_ANSWER_KEPT = float("inf"), 60.0
_CLOSING_GRACE = 15.0
# an executable that is another file after each of so many looks never stays the same for long enough
_LOOKS = 3
_TIME = "%Y-%m-%dT%H:%M:%SZ"
_Key = tuple[str, str, str]


class Engines:
    """The catalogue; `profiles` learns of each engine, in the background and once for each executable.

    `environment` returns what an engine's next run would get; `stop` ends what is run; `settled` hears of each end
    of a look at an engine.
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
        self._paths: dict[str, Path] = {}
        self._installed: Memo[InstalledEngine] = Memo(clock)
        self._looking: set[str] = set()
        self._looks_in_vain: dict[str, int] = {}
        self._news = threading.Condition()

    def find(self, name: str) -> InstalledEngine:
        """Find an engine as it is now; EnvironmentFailed if it is not installed, ContractError if it has no contract.

        Where its executable has not changed that is a look at its file, no more.
        """
        contract, newest = _contract(name)
        key, path = self._place(newest)

        def ask() -> tuple[InstalledEngine, float]:
            version = None
            # one that can't be started is installed all the same: the run will say what is wrong with it
            with suppress(EnvironmentFailed, OSError):
                version = version_of(newest, path, self._data, self._environment(newest), self._stop)
            engine = InstalledEngine(path, version, covering(contract, newest, version), key[2])
            return engine, _FOREVER if version else _NO_ANSWER_KEPT

        return self._installed.get(key, ask)

    def collect(self) -> None:
        """Learn all that is shown of every installed engine, all at once; returns when that is done."""
        for engine in load.engines():
            self._begin(engine)
        with self._news:
            self._news.wait_for(lambda: not self._looking)

    def unsettled(self, engines: Iterable[str]) -> set[str]:
        """Return those of which it is not known yet whether they resume; begins to look at what is new. Never waits."""
        return {engine for engine in engines if self._is_unsettled(engine)} if self._profiles.verifies else set()

    def close(self) -> None:
        """Wait until nothing is run any more, for some seconds at most; `stop` must be set."""
        with self._news:
            self._news.wait_for(lambda: not self._looking, _CLOSING_GRACE)

    def every(self, patience: float = 2.0) -> list[dict[str, Any]]:
        """Describe every contracted engine, in the shape of `Engine` in `openapi.yaml`.

        Where an executable is new it is looked at in the background, and its version waited for no longer than
        `patience` seconds; what is not known by then is null.
        """
        with self._news:
            self._news.wait_for(lambda: self._stop.is_set() or self._all_seen(), patience)
        return [self._row(engine) for engine in load.engines()]

    def _all_seen(self) -> bool:
        """Whether every installed engine has been asked for its version; begin with those that have not."""
        seen = True
        for engine in load.engines():
            with suppress(EnvironmentFailed):
                key, _ = self._place(_contract(engine)[1])
                if self._installed.peek(key) is None:
                    self._begin(engine)
                    seen = False
        return seen

    def _is_unsettled(self, engine: str) -> bool:
        try:
            key, _ = self._place(_contract(engine)[1])
        except EnvironmentFailed:
            return False
        installed = self._installed.peek(key)
        if installed is not None and not self._profiles.is_pending(installed):
            return False
        if self._looks_in_vain.get(engine, 0) >= _LOOKS:
            return False
        self._begin(engine)
        return True

    def _begin(self, engine: str) -> None:
        """Look at an engine in the background, unless that is under way."""
        with self._news:
            if engine in self._looking or self._stop.is_set():
                return
            self._looking.add(engine)
        threading.Thread(target=self._look, args=(engine,), name=f"turngate-look-{engine}", daemon=True).start()

    def _look(self, engine: str) -> None:
        settled = False
        try:
            with suppress(EnvironmentFailed):
                installed = self.find(engine)
                with self._news:
                    self._news.notify_all()
                self._profiles.learn(installed)
                settled = not self._profiles.is_pending(installed)
        finally:
            with self._news:
                self._looks_in_vain[engine] = 0 if settled else self._looks_in_vain.get(engine, 0) + 1
                self._looking.discard(engine)
                self._news.notify_all()
            self._settled()

    def _row(self, engine: str) -> dict[str, Any]:
        _, contract = _contract(engine)
        with suppress(EnvironmentFailed):
            key, path = self._place(contract)
            return _described(contract, path, self._installed.peek(key), self._profiles)
        return _described(contract, None, None, self._profiles)

    def _place(self, contract: EngineContract) -> tuple[_Key, Path]:
        """Find the executable, and what tells it from what it was; EnvironmentFailed if there is none."""
        engine = contract.engine
        path = self._paths.get(engine)
        if path is not None:
            with suppress(OSError):
                return (engine, str(path), identity(path)), path
        path = self._paths[engine] = locate(contract)
        try:
            return (engine, str(path), identity(path)), path
        except OSError as gone:
            raise EnvironmentFailed(f"{path} is gone: {gone.strerror}", "install it again") from gone


@cache
def _contract(engine: str) -> tuple[Contract, EngineContract]:
    """Load a contract, and resolve it for the newest release."""
    contract = load.contract(engine)
    return contract, contract.at()


def _described(
    newest: EngineContract, executable: Path | None, engine: InstalledEngine | None, profiles: Profiles
) -> dict[str, Any]:
    """Describe an engine without running it; `executable` None: it is not installed, `engine` None: not looked at."""
    contract = engine.contract if engine else newest
    simulated = executable is not None and is_simulated(executable)
    verified = profiles.verified(engine) if executable else None
    able = profiles.known(engine) if engine else None
    last = last_result(ProbeResult, engine.contract.engine, engine.executable, default_cache()) if engine else None
    return {
        "engine": contract.engine, "title": contract.title, "contract_version": contract.contract_version,
        "lifecycle": contract.lifecycle.status,
        "executable": executable and str(executable),
        "simulated": simulated,
        "version": engine and engine.version,
        "capability": able and structs.asdict(able),
        "profile": able and {"kind": profile(able).kind, "reason": able.detail},
        "verified": verified and verified.status.value,
        "verified_detail": verified and verified.detail,
        "verified_at": f"{verified.at:{_TIME}}" if verified and verified.at else None,
        "sticky": _sticky(contract, simulated=simulated),
        "tools_lost": [{"tool": tool, "detail": lost.why} for lost in contract.tools_lost for tool in lost.tools],
        "help_missing": [*profiles.help_missing(engine)] if engine else [],
        "last_probe": last and {
            "verdict": last.verdict.value, "version": last.version, "at": f"{last.at:{_TIME}}",
            "supported": last.capability.supported,
        },
    }  # fmt: skip


def _sticky(contract: EngineContract, *, simulated: bool) -> dict[str, Any]:
    """Describe the sticky process of an engine by its contract."""
    sticky, transport = contract.sticky, contract.sticky.transport
    asks, verified = sticky.interactive is not None, "sticky" not in contract.unverified and not simulated
    supported = transport != "none" and asks
    if transport == "none":
        detail = "the contract names no transport of a sticky process"
    elif not supported:
        detail = f"the contract does not say how it asks before it acts over {transport}"
    elif simulated:
        detail = f"driven over {transport} by a simulated engine, which proves nothing about the real one"
    else:
        detail = f"driven over {transport}; {'' if verified else 'not yet '}seen at work with this release"
    return {
        "supported": supported, "transport": transport, "verified": supported and verified, "asks": asks,
        "same_id": sticky.same_id, "own_store": sticky.own_store, "detail": detail,
    }  # fmt: skip
