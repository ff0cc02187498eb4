"""The first turn of a release, which every other case awaits: does the executable run its engine in the sandbox?"""

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from turngate.contract.clauses import Reason
from turngate_probes.harness.engine_watch import EngineWatch
from turngate_probes.harness.interrupt import CaseStoppedError, Obstacle
from turngate_probes.harness.node_needed import newer_node_needed
from turngate_probes.harness.observations import Turn
from turngate_probes.harness.registry_hosts import refused_registry
from turngate_probes.harness.resource_usage import node_version
from turngate_probes.harness.sandbox import Sandbox
from turngate_probes.stub_model import Exchange

PASS_ON = "a wrapper must pass on the working directory, HOME and every variable: see docs/wrappers.md"
INSTALL = "install the engine and pass its own command, or let the wrapper run offline: see docs/wrappers.md"
UPDATE = "update Node.js on PATH, or probe an older release"


@dataclass(slots=True)
class FirstTurn:
    """Holds the other cases back until the first turn has reached the model, and stops them if it can't.

    Safe for threads.
    """

    _obstacle: Obstacle | None = None
    _known: threading.Event = field(default_factory=threading.Event)

    @property
    def is_known(self) -> bool:
        """Whether the first turn has shown what it can."""
        return self._known.is_set()

    def tell(self, obstacle: Obstacle | None) -> None:
        """Say what keeps the other cases from running (None: nothing); only the first call counts."""
        if not self._known.is_set():
            self._obstacle = obstacle
            self._known.set()

    def check(self, level: str = "hermetic") -> None:
        """Wait until the first turn is known; CaseStoppedError if it keeps a case of this level from running.

        Pages can be tested although the engine sends no request, but nothing can in a wrapper that breaks the sandbox.
        """
        self._known.wait()
        if self._obstacle and (level != "static" or self._obstacle.reason):
            raise CaseStoppedError.of(self._obstacle)


@dataclass(slots=True)
class FirstTurnCheck:
    """Observes the first turn of a release: `argv` starts its executable, `nonce` is in its prompt.

    `wanted` are the variables that the engine must get.
    """

    first: FirstTurn
    sandbox: Sandbox
    argv: tuple[str, ...]
    nonce: str
    wanted: Mapping[str, str]
    watch: EngineWatch = field(init=False)

    def __post_init__(self) -> None:
        """Prepare to watch the engine."""
        self.watch = EngineWatch(self.argv[1:], self.sandbox)

    def requested(self, request: Exchange, stop: Callable[[], None]) -> None:
        """Let the other cases run once the engine has sent its prompt from the right directory, else `stop` it."""
        if self.nonce not in request.nonces or self.first.is_known:
            return
        folder = self.watch.strange_folder(request)
        if folder is None:
            self.first.tell(None)
            return
        what = f"the executable runs its engine in {folder}, not in the directory in which it was started"
        self.first.tell(Obstacle(what, Reason.WRAPPER, hint=PASS_ON))
        stop()

    def ended(self, turn: Turn) -> None:
        """Take the end of the turn; CaseStoppedError if the executable can't run its engine in the sandbox."""
        if not self.first.is_known:
            self.first.tell(None if turn.requests else self._obstacle(turn))
        self.first.check("static")

    def _obstacle(self, turn: Turn) -> Obstacle:
        """Return what kept the engine from sending a request: the environment only if something shows that."""
        hosts = [tried.host for tried in self.sandbox.backend.egress()]
        if host := refused_registry(hosts, turn.stdout, turn.stderr):
            what = f"the executable needs the package registry {host}, which can't be reached from a probe"
            return Obstacle(what, Reason.WRAPPER, hint=INSTALL)
        if lost := self.watch.lost(self.wanted):
            what = f"the executable doesn't pass on {', '.join(lost)}, so its engine can't find the model"
            return Obstacle(what, Reason.WRAPPER, hint=PASS_ON)
        said = turn.reading.failures or tuple(turn.stderr.decode("utf-8", "replace").strip().splitlines()[-1:])
        if least := newer_node_needed(Path(self.argv[0])):
            what = f"the release needs Node.js {least} or newer, and doesn't start with {node_version()}"
            return Obstacle(": ".join((what, *said[:1])), Reason.NO_EXECUTABLE, hint=UPDATE)
        how = "it hung" if turn.hung else ": ".join([f"exit code {turn.exit_code}", *said[:1]])
        return Obstacle(f"{turn.name} sent no request to the model ({how})", by_engine=True, at_first=True)
