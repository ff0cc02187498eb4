"""The engines of this machine, looked at in the background and held in memory."""

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from turngate import load
from turngate.contract import EngineContract
from turngate.environment import engine_environment, locations_of
from turngate.errors import EnvironmentFailed
from turngate.help_page import missing
from turngate.load import Contract
from turngate.model import EngineResumeCapability
from turngate.runtime import Stop
from turngate.runtime.cache import default_cache
from turngate.runtime.identity import identity
from turngate.runtime.probe_results import last_result
from turngate.runtime.simulated import is_simulated
from turngate.verdict import profile
from turngate_reference.data_dir import DataDir
from turngate_reference.installed import InstalledEngine, covering, locate, printed, version_of
from turngate_reference.orchestrator.once import Once

_FOREVER, _NO_ANSWER_KEPT = float("inf"), 60.0
_Key = tuple[str, str, str]


class Engines:
    """The catalogue; `stop` ends what it runs, `known` tells whether an engine's sessions can be resumed.

    `learn` finds that out, in the background and once for each engine that is looked at.
    """

    def __init__(
        self,
        data: DataDir,
        stop: Stop,
        known: Callable[[InstalledEngine], EngineResumeCapability | None] = lambda _engine: None,
        learn: Callable[[InstalledEngine], object] = lambda _engine: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._data, self._stop, self._known, self._learn = data, stop, known, learn
        self._paths: dict[str, Path] = {}
        self._installed: Once[InstalledEngine] = Once(clock)
        self._help: Once[list[str]] = Once(clock)
        self._looking: set[str] = set()
        self._news = threading.Condition()

    def find(self, engine: str) -> InstalledEngine:
        """Find an engine as it is now; EnvironmentFailed if it is not installed, ContractError if it has no contract.

        Where its executable has not changed that is a look at its file, no more.
        """
        contract, newest = _contract(engine)
        key, path = self._place(newest)

        def ask() -> tuple[InstalledEngine, float]:
            version = None
            # one that can't be started is installed all the same: the run will say what is wrong with it
            with suppress(EnvironmentFailed, OSError):
                version = version_of(newest, path, self._data, _environment(newest), self._stop)
            found = InstalledEngine(path, version, covering(contract, newest, version))
            return found, _FOREVER if version else _NO_ANSWER_KEPT

        return self._installed.get(key, ask)

    def collect(self) -> None:
        """Ask every installed engine for all that is shown of it, all at once; returns when that is done."""
        for engine in load.engines():
            self._begin(engine)
        with self._news:
            self._news.wait_for(lambda: not self._looking)

    def every(self, patience: float = 2.0) -> list[dict[str, Any]]:
        """Describe every contracted engine, in the shape of `Engine` in `openapi.yaml`.

        Where an executable is new it is looked at in the background, and its version waited for no longer than
        `patience` seconds; what is not known by then is null.
        """
        with self._news:
            self._news.wait_for(lambda: self._stop.is_set() or self._all_seen(), patience)
        return [self._row(engine) for engine in load.engines()]

    def _all_seen(self) -> bool:
        """Tell whether every installed engine has been asked for its version; begin with those that have not."""
        seen = True
        for engine in load.engines():
            with suppress(EnvironmentFailed):
                key, _ = self._place(_contract(engine)[1])
                if self._installed.peek(key) is None:
                    self._begin(engine)
                    seen = False
        return seen

    def _begin(self, engine: str) -> None:
        """Look at an engine in the background, unless somebody is at it."""
        with self._news:
            if engine in self._looking:
                return
            self._looking.add(engine)
        threading.Thread(target=self._look, args=(engine,), name=f"turngate-look-{engine}", daemon=True).start()

    def _look(self, engine: str) -> None:
        try:
            with suppress(EnvironmentFailed):
                found = self.find(engine)
                with self._news:
                    self._news.notify_all()
                key, _ = self._place(found.contract)
                self._help.get(key, lambda: self._help_missing(found))
                self._learn(found)
        finally:
            with self._news:
                self._looking.discard(engine)
                self._news.notify_all()

    def _help_missing(self, engine: InstalledEngine) -> tuple[list[str], float]:
        """List what the help pages fail to name."""
        absent: list[str] = []
        for page in engine.contract.help.pages:
            env = _environment(engine.contract)
            _, said = printed(engine.executable, page.argv, page.stream, env, self._stop)
            absent += missing(page, said)
        return absent, _FOREVER

    def _row(self, engine: str) -> dict[str, Any]:
        _, contract = _contract(engine)
        row: dict[str, Any] = {
            "executable": None, "simulated": False, "version": None, "capability": None, "profile": None,
            "help_missing": [], "last_probe": None,
        }  # fmt: skip
        with suppress(EnvironmentFailed):
            key, path = self._place(contract)
            row |= {"executable": str(path), "simulated": is_simulated(path)}
            if found := self._installed.peek(key):
                contract = found.contract
                row |= {"version": found.version, "help_missing": self._help.peek(key) or []} | self._able(found)
        return {
            "engine": engine, "title": contract.title, "contract_version": contract.contract_version,
            "lifecycle": contract.lifecycle.status, "resident": _resident(contract, simulated=row["simulated"]), **row,
        }  # fmt: skip

    def _able(self, engine: InstalledEngine) -> dict[str, Any]:
        """Describe what is known of its resuming."""
        row: dict[str, Any] = {}
        if able := self._known(engine):
            row["capability"] = {
                "supported": able.supported, "probe_method": able.probe_method, "detail": able.detail
            }  # fmt: skip
            row["profile"] = {"kind": profile(able).kind, "reason": able.detail}
        if last := last_result(engine.contract.engine, engine.executable, default_cache()):
            row["last_probe"] = {
                "verdict": last.verdict.value, "version": last.version,
                "at": f"{last.at:%Y-%m-%dT%H:%M:%SZ}", "supported": last.capability.supported,
            }  # fmt: skip
        return row

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


def _resident(contract: EngineContract, *, simulated: bool) -> dict[str, Any]:
    """Describe by its contract how one process of an engine can be kept over several turns."""
    kept = contract.resident
    asks, verified = kept.interactive is not None, "resident" not in contract.unverified and not simulated
    supported = kept.transport != "none" and asks
    if kept.transport == "none":
        detail = "the contract names no way to keep a process"
    elif not supported:
        detail = f"the contract does not say how it asks before it acts over {kept.transport}"
    elif simulated:
        detail = f"driven over {kept.transport} by a simulated engine, which proves nothing about the real one"
    else:
        detail = f"driven over {kept.transport}; {'' if verified else 'not yet '}seen at work with this release"
    return {
        "supported": supported, "transport": kept.transport, "verified": supported and verified, "asks": asks,
        "same_id": kept.same_id, "own_store": kept.own_store, "detail": detail,
    }  # fmt: skip


def _environment(contract: EngineContract) -> dict[str, str]:
    return engine_environment(contract, os.environ, locations_of(contract, os.environ))
