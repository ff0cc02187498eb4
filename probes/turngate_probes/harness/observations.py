"""The observations of a probe, from real runs or recordings: turns, help pages, API calls and side effects."""

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec import Struct, field
from msgspec.structs import replace

from turngate import Ended, EngineContract, Mode, TurnReading
from turngate.contract.clauses import Reason
from turngate.model import HUNG
from turngate.process.executable import PrintedText
from turngate.process.sessions import Leftover
from turngate_probes.harness.interrupt import Obstacle, ObstacleError
from turngate_probes.stub_model import Exchange

# By these, a client finds out whether a backend at a local address is LM Studio, Ollama, llama.cpp or vLLM, and which
# model the gateway of Kilo's own provider prefers.
_BACKEND_QUERIES = {
    ("GET", "/api/defaults"),
    ("GET", "/api/v1/models"),
    ("GET", "/api/tags"),
    ("POST", "/api/show"),
    ("GET", "/v1/props"),
    ("GET", "/props"),
    ("GET", "/version"),
}


class NotObservedError(ObstacleError):
    """A check needs something that was not observed."""


class _Step(Struct, frozen=True):
    name: str

    @property
    def case(self) -> str:
        """The first part of the name, which is `case/step`."""
        return self.name.partition("/")[0]

    @property
    def step(self) -> str:
        """The second part of the name."""
        return self.name.partition("/")[2]


class Turn(_Step, frozen=True):
    """One turn of one case, and everything that is known about it.

    `argv` begins with the executable, `own_arguments` are those after it that are not
    the prompt; `scripted` is the model's scripted reply; `requests` None means that they were not observed.
    `stdin` is `prompt`, `open` or `closed`; `env` are the names of the variables that were set; `signal` is
    the one that was sent during the turn; `acted` says whether the tool that the model asked for did its work
    (None: it asked for none, or nobody checked); `written` are the places in which it wrote what the model asked for;
    `dropped` counts the bytes of both streams beyond the limit;
    `started` are the harmless programs that it started of those that it was offered (None: it was offered none);
    `effects` are the redirects of its workspace that had an effect (None: its workspace has none); `offline` says that
    it was stopped once it had left for the vendor's model, which it can't reach;
    `changed` are the files of its workspace that changed (None: nobody compared);
    `in_force` are the settings of the user that had an effect (None: nobody looked);
    `instructed` says whether the instruction file of its workspace reached the model (None: there was none);
    `summary` is the nonce in the model's summary of the conversation (empty: it gives none);
    `exit_seconds` is the time from its terminal event to its exit, 0 without such an event (None: not measured).
    """

    argv: tuple[str, ...]
    own_arguments: tuple[str, ...]
    cwd: str
    mode: Mode
    prompt: str
    nonce: str
    resumed: str | None
    scripted: str
    exit_code: int | None
    ended: Ended
    finished_at: float
    seconds: float
    cpu_seconds: float
    stdout: bytes
    stderr: bytes
    leftovers: tuple[Leftover, ...]
    requests: tuple[Exchange, ...] | None
    reading: TurnReading
    turn_index: int = 1
    stdin: Literal["closed", "open", "prompt"] = "closed"
    env: tuple[str, ...] = ()
    signal: str | None = None
    acted: bool | None = None
    dropped: int = 0
    exit_seconds: float | None = None
    started: tuple[str, ...] | None = None
    effects: tuple[str, ...] | None = None
    offline: bool = False
    written: tuple[str, ...] = ()
    changed: tuple[str, ...] | None = None
    instructed: bool | None = None
    in_force: tuple[str, ...] | None = None
    summary: str = ""

    @property
    def hung(self) -> bool:
        """Whether the turn missed its deadline; its terminal event ends a turn, even if the process still runs."""
        return self.ended in HUNG

    @property
    def session(self) -> str | None:
        """The session id that the turn reported, if it was in the right place."""
        return self.reading.session.handle_value if self.reading.session else None

    @property
    def watched(self) -> tuple[Exchange, ...]:
        """The requests that the model backend received; NotObservedError if they were not observed."""
        if self.requests is None:
            raise NotObservedError(f"the recording of {self.name} has no requests", Reason.NO_RECORDING)
        return self.requests

    def sent(self) -> tuple[Exchange, ...]:
        """The requests that carry this turn's own prompt."""
        return tuple(request for request in self.watched if self.nonce in request.nonces)

    @property
    def called(self) -> bool:
        """Whether the model asked for a tool."""
        return any(request.is_call for request in self.watched)

    def carries(self, *earlier: "Turn") -> bool:
        """Whether one request contained this turn's prompt and the nonces of the earlier turns."""
        wanted = {turn.nonce for turn in earlier}
        return any(wanted <= set(request.nonces) for request in self.sent())


class CommandOutput(_Step, frozen=True):
    """The output of a plain command, such as a help page."""

    argv: tuple[str, ...]
    exit_code: int | None
    ended: Ended
    stdout: bytes
    stderr: bytes
    cpu_seconds: float = 0.0

    @property
    def printed(self) -> PrintedText:
        """The text of both streams."""
        stdout, stderr = (stream.decode("utf-8", "replace") for stream in (self.stdout, self.stderr))
        return PrintedText(self.exit_code, stdout, stderr)

    @property
    def shown(self) -> str:
        """The text that it printed; help pages may be on standard error."""
        return (self.stdout or self.stderr).decode("utf-8", "replace")


class ServerCall(_Step, frozen=True):
    """A request to the reference server and its answer (JSON values)."""

    method: str
    path: str
    status: int
    sent: Any
    answer: Any

    @property
    def document(self) -> dict[str, Any]:
        """The answer, if it is a JSON object; else an empty one."""
        return self.answer if isinstance(self.answer, dict) else {}

    @property
    def state(self) -> str | None:
        """The state of the run that the answer describes."""
        return self.document.get("state")

    def summary(self) -> str:
        """Describe the answer: the status, and the code and detail of a problem."""
        reported = [str(self.document[key]) for key in ("code", "detail") if key in self.document]
        return f"{self.method} {self.path}: " + ": ".join([str(self.status), *reported])


Observation: TypeAlias = Turn | CommandOutput | ServerCall
_Item = TypeVar("_Item", Turn, CommandOutput, ServerCall)


def unknown_requests(exchanges: Iterable[Exchange]) -> set[str]:
    """Return the requests that the model backend does not know, as `method path`, without those for its kind."""
    # a tunnel without a host goes to this machine: an absent backend, requested through the proxy
    asked = {(r.method, r.path) for r in exchanges if r.protocol is None and r.method != "CONNECT"}
    # some clients open their connection early by reading the root, which asks for nothing
    return {f"{method} {path}" for method, path in asked - {("GET", "/"), ("HEAD", "/")} - _BACKEND_QUERIES}


class CaseEnd(Struct, frozen=True):
    """The end of a case: the reason if it ended early, the contacted hosts, and unknown requests.

    `registries` are the hosts of package registries among those that the contract doesn't list.
    """

    case: str
    why_early: Obstacle | None = None
    hosts: frozenset[str] = frozenset()
    unknown: frozenset[str] = frozenset()
    registries: frozenset[str] = frozenset()


class Observations(Struct):
    """All observations of one release so far; checks read them, the probe adds to them.

    `finished` are the completed cases, `stopped` says why a case ended early, and `absent` why others are missing
    (None: they should exist); `hosts` are those that were tried beyond loopback, `registries` the package registries
    among them, `unknown` are requests that the model backend does not know, `changed` says how the executable changed
    during the probe (None: not checked). Threads may add to them at once if `hosts` is a set.
    """

    contract: EngineContract
    turns: dict[str, Turn] = field(default_factory=dict)
    pages: dict[str, CommandOutput] = field(default_factory=dict)
    calls: dict[str, ServerCall] = field(default_factory=dict)
    finished: set[str] = field(default_factory=set)
    stopped: dict[str, Obstacle] = field(default_factory=dict)
    absent: Obstacle | None = None
    hosts: set[str] | None = None
    registries: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    changed: str | None = None

    def turn(self, name: str) -> Turn:
        """Return a turn by `case/step`; NotObservedError says why it is missing."""
        return self._named(self.turns, name)

    def page(self, name: str) -> CommandOutput:
        """Return a page by `case/step`; NotObservedError says why it is missing."""
        return self._named(self.pages, name)

    def call(self, name: str) -> ServerCall:
        """Return a call by `case/step`; NotObservedError says why it is missing."""
        return self._named(self.calls, name)

    def saw(self, item: Observation, _box: object = None) -> None:
        """Add an observation."""
        match item:
            case Turn():
                self.turns[item.name] = item
            case CommandOutput():
                self.pages[item.name] = item
            case ServerCall():
                self.calls[item.name] = item

    def ended(self, end: CaseEnd) -> None:
        """Add the end of a case, and what was observed around it."""
        if self.hosts is None:
            self.hosts = set()
        # in place, so that no thread loses what another one adds
        self.hosts |= end.hosts
        self.registries |= end.registries
        self.unknown |= end.unknown
        if end.why_early is None:
            self.finished.add(end.case)
        else:
            self.stopped[end.case] = end.why_early

    def missing(self, what: str) -> NotObservedError:
        """Return why an observation is missing for reasons other than the engine."""
        return _obstructed(what, self.absent or Obstacle("it did not run"))

    def _named(self, items: Mapping[str, _Item], name: str) -> _Item:
        if name not in items:
            raise self._missing(name)
        return items[name]

    def _missing(self, name: str) -> NotObservedError:
        """Return why a step is missing: a completed case lacks only what the engine did not do."""
        case = name.partition("/")[0]
        if case in self.stopped:
            return _obstructed(name, self.stopped[case])
        if case in self.finished:
            return NotObservedError(f"{name} was not observed, although its case completed", by_engine=True)
        return self.missing(name)


def _obstructed(what: str, obstacle: Obstacle) -> NotObservedError:
    return NotObservedError.of(replace(obstacle, text=f"{what} was not observed: {obstacle.text}"))
