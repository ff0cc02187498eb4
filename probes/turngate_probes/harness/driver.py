"""Runs the turns of one case on a real engine, and reports the observations.

Some turns are disturbed: by a deadline that starts at the first request of their engine, or by a signal, at that
request, when the engine carries out a tool call, or at the terminal event. How long the turns of a release take to
their first request bounds what a slow machine may take to start and to exit.
"""

import os
import re
import shutil
import threading
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import partial
from pathlib import Path
from signal import Signals
from typing import Any, Literal, Self

from msgspec import Struct, field, structs
from msgspec.structs import replace

from turngate import (
    Ended,
    EngineContract,
    Invocation,
    MachineError,
    Mode,
    ProcessOutcome,
    ProcessRequest,
    Stop,
    TurnReader,
    first_turn,
    process_request,
    read_turn,
    resumed_turn,
)
from turngate.contract.hermetic import Compaction
from turngate.contract.home_and_workspace import OngoingCall, OutputSetting, ToolUse
from turngate.files import read_regular
from turngate.process.execution import Stdin, run
from turngate.process.family import is_alive
from turngate.process.sessions import POLL
from turngate_probes.harness.first_turn import FirstTurn, FirstTurnCheck
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt, InterruptedCaseError
from turngate_probes.harness.observations import CommandOutput, Observation, Turn
from turngate_probes.harness.repository import WatchedFolder
from turngate_probes.harness.sandbox import Sandbox
from turngate_probes.harness.session_file import STEP as SESSION
from turngate_probes.harness.session_file import session_form
from turngate_probes.stub_model import Exchange, Reply, StubBackend, StubRule, Summary, Text, ToolCall, new_nonce

_STARTED_WITHIN = 5.0  # seconds; an engine's first request comes long after its start was recorded
FACTOR = 2.0  # turns that start together may differ by it
LEAST_ROOM = 2**16  # bytes on the disk; below it, what an engine does says nothing about it
TURN_TIMEOUT = 120.0
LONGEST_FILE = 64 * 2**20  # bytes
STARTUP_ALLOWANCE = 60.0
QUESTION = """{"outcome": "ask_user", "interaction": {"kind": "choose_one", "prompt": "Which colour?", \
"options": ["red", "blue"], "required_fields": [], "context": {}}}"""
ANSWER = '{"outcome": "final", "final_data": {"colour": "blue"}}'
ASK, FINAL = Text(QUESTION), Text(ANSWER)
# in each form that an engine looks for
# long enough for engines that refuse a summary which is short beside the conversation
_SUMMARIZED = "The user asked to be asked for a colour, the agent asked which one, and the user answered. " * 20
SUMMARY = f"""<analysis>{_SUMMARIZED}</analysis>
<summary>{_SUMMARIZED}{{nonce}}</summary>
<state_snapshot><overall_goal>The user was asked for a colour. {{nonce}}</overall_goal></state_snapshot>"""
ABSENT_TOOL = "no_such_tool"  # its call only makes the engine send another request
HELPER_SECONDS = 3.0  # unless the turn ends before
MEETING = 60.0  # seconds that a request waits at most for those of the turns beside it
HELD = "held"  # a file of the workspace, whose reader waits
TOOL_PATIENCE = 45.0  # seconds after the last call, for a turn in which the model asks for a tool
_BUSY_AFTER = 2**12  # bytes that a slow caller reads
_BUSY = 3.0  # seconds for which it then reads no more; an engine that waits for it at its exit may do so for two


Moment = Literal["request", "call", "end"]


class TurnInterruption:
    """Starts a clock at a turn's first request for an answer to its prompt, and signals the engine as a terminal does.

    A request that the model answers with a call starts it anew: a turn with many calls takes its time. `give_up` is
    called after `patience` seconds, unless the turn is over by then. With `startup`, the seconds that the engine may
    take to its first request, it is also called if that time and then `patience` pass without a request. Requests after
    the context are ignored. Safe for threads.
    """

    def __init__(
        self,
        number: Signals | None,
        patience: float | None,
        give_up: Callable[[], None],
        startup: Callable[[], float] | None = None,
        moment: Moment = "request",
    ) -> None:
        """Send signal `number` (None: none) at that moment, and wait `patience` seconds (None: forever)."""
        self._number, self._moment, self._pid, self._began = number, moment, 0, 0.0
        self._patience, self._give_up, self._startup = patience, give_up, startup
        self._started, self._lock = threading.Event(), threading.Lock()
        self._requested, self._is_over = False, threading.Event()
        self._timer: threading.Timer | None = None

    def started(self, pid: int) -> None:
        """Take the id of the main process, which leads the group."""
        self._pid, self._began = pid, time.monotonic()
        self._started.set()
        self._await_request()

    def requested(self, *, with_prompt: bool = True, is_call: bool = False) -> None:
        """Act at the first request for an answer to the prompt; an engine may ask for a list of models long before."""
        if not with_prompt:
            return
        with self._lock:
            if self._patience is not None and (is_call or not self._requested):
                self._start_timer(self._patience, self._give_up)
            self._requested = True
        if not self._is_over.is_set():
            self.strike("request")

    def strike(self, moment: Moment) -> None:
        """Send the signal, once, if it is for this moment."""
        if moment != self._moment or self._number is None or not self._started.wait(_STARTED_WITHIN):
            return
        number, self._number = self._number, None
        with suppress(OSError):
            os.killpg(self._pid, number)

    def over(self) -> None:
        """Stop the clock."""
        with self._lock:
            self._is_over.set()
            if self._timer:
                self._timer.cancel()

    def wait_until_over(self, seconds: float) -> None:
        """Wait until the clock is stopped, at most so many seconds."""
        self._is_over.wait(seconds)

    def _await_request(self) -> None:
        """Give up if the time for a first request has passed without one; it may have grown in the meantime."""
        with self._lock:
            if self._requested or self._is_over.is_set() or self._startup is None or self._patience is None:
                return
            left = self._began + self._startup() + self._patience - time.monotonic()
            if left > 0:
                self._start_timer(left, self._await_request)
                return
        self._give_up()

    def _start_timer(self, seconds: float, then: Callable[[], None]) -> None:
        """Replace the running timer; the lock is held."""
        if self._timer:
            self._timer.cancel()
        if not self._is_over.is_set():
            self._timer = threading.Timer(seconds, then)
            self._timer.daemon = True
            self._timer.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._requested = True
        self.over()


class Startups:
    """The starts of a release's turns. Safe for threads."""

    def __init__(self) -> None:
        self._lock, self._starting, self._slowest = threading.Lock(), dict[Hashable, float](), 0.0

    def begin(self, turn: Hashable) -> None:
        """Take the start of a turn's process."""
        with self._lock:
            self._starting[turn] = time.monotonic()

    def called(self, turn: Hashable) -> None:
        """Take a request of a turn; only the first one counts."""
        with self._lock:
            if turn in self._starting:
                self._slowest = max(self._slowest, time.monotonic() - self._starting.pop(turn))

    @contextmanager
    def observing(self, turn: Hashable) -> Iterator[None]:
        """Forget a turn that has made no request when the block ends."""
        try:
            yield
        finally:
            with self._lock:
                self._starting.pop(turn, None)

    def slowest(self) -> float:
        """Return the seconds of the slowest start so far: 0 until a turn has made a request.

        It grows while other turns are still starting, so that it follows the load of the machine.
        """
        with self._lock:
            now = time.monotonic()
            starts = [self._slowest, *(now - began for began in self._starting.values())]
            return max(starts) if self._slowest else 0.0

    def allowance(self, most: float) -> float:
        """Return the seconds that a turn may take to its first request: twice the slowest start so far.

        It is `most` until a turn has made a request, and never longer.
        """
        return min(most, FACTOR * self.slowest() or most)


class SlowCaller:
    """Reads no more of a stream for some seconds, once, as a busy caller does, so that a pipe gets full.

    It goes on when the process `pid` has exited.
    """

    def __init__(self, stream: str, seconds: float) -> None:
        self.pid = 0
        self._stream, self._seconds, self._size = stream, seconds, 0

    def received(self, stream: str, chunk: bytes) -> None:
        """Take a chunk, and return only when the next one may be read."""
        before, self._size = self._size, self._size + len(chunk) * (stream == self._stream)
        if before < _BUSY_AFTER <= self._size:
            deadline = time.monotonic() + self._seconds
            while time.monotonic() < deadline and is_alive(self.pid):
                time.sleep(POLL)


class Write(Struct, frozen=True):
    """A call of a tool that would make `file`, by the name of the place."""

    place: str
    call: ToolCall
    file: Path


class UserSettings(Struct, frozen=True):
    """Settings of a user that change what a turn shows, and the address for telemetry that they may name."""

    settings: tuple[OutputSetting, ...]
    collector: StubBackend

    def in_force(self, requests: Iterable[Exchange], started: Collection[str], sandbox: Sandbox) -> tuple[str, ...]:
        """Return the names of the settings that had the effect by which they show."""
        bodies, collected = [request.body for request in requests], bool(self.collector.exchanges())
        return tuple(
            setting.name
            for setting, sign in ((setting, setting.shows) for setting in self.settings)
            if (sign.started and setting.name in started)
            or (sign.collected and collected)
            or (sign.sent and any(re.search(sign.sent.encode(), body) for body in bodies))
            or (sign.written and Path(sandbox.fill(sign.written)).is_file())
        )


class ScriptedSummary(Struct, frozen=True):
    """The model's summary of a conversation that the engine compacts as the contract says, and the nonce in it."""

    nonce: str
    compaction: Compaction

    @property
    def rule(self) -> StubRule:
        """How the model answers the request for a summary."""
        return StubRule(Summary(SUMMARY.format(nonce=self.nonce), self.compaction.tokens), self.compaction.request)


class Ask(Struct, frozen=True):
    """The input of a turn: the prompt, the nonce in it, and the model's reply.

    `via` forces the prompt's channel; `patience` is the turn's deadline in seconds after its first request, and
    `hangs` says that the contract declares that the turn misses it. The model asks for `tool` before it replies;
    `offline` says that the turn can't reach its model, and is stopped once it has tried to reach `vendor`, or a
    stranger; `signal` is sent to the engine's process group at its `moment`: at the first request with the prompt,
    when a tool call reads HELD, or at the terminal event. `options` are a caller's, besides those of every turn. The
    engine may write below `artifacts`; then the model makes the `writes`, one after the other and after `tool`, before
    it replies. The model also makes the `ongoing` calls before it replies, and `calls`, each once. `instructions` is
    the text of the workspace's instruction file, `model` the one to ask for. `users` are the settings in the user's
    home. `slow_pipe`: the output is read slowly and from a pipe, also where the contract has it read from a file.
    Where the engine asks for one, the model gives the `summary`.
    """

    prompt: str
    nonce: str
    reply: Reply
    mode: Mode = Mode.INTERACTIVE
    turn_index: int = 1
    cwd: Path | None = None
    via: str | None = None
    stdin_open: bool = False
    patience: float | None = None
    hangs: bool = False
    tool: ToolUse | None = None
    offline: bool = False
    vendor: frozenset[str] = frozenset()
    signal: Signals | None = None
    moment: Moment = "request"
    options: tuple[str, ...] = ()
    artifacts: Path | None = None
    writes: tuple[Write, ...] = ()
    ongoing: tuple[OngoingCall, ...] = ()
    instructions: str = ""
    model: str | None = None
    calls: tuple[ToolCall, ...] = ()
    slow_pipe: bool = False
    users: UserSettings | None = None
    summary: ScriptedSummary | None = None

    def seconds_of_helper(self, exchange: Exchange) -> float:
        """Return how long the model works for another agent of the engine, which then outlives the turn if it can."""
        is_helper = self.ongoing and exchange.tools and self.nonce not in exchange.nonces
        return HELPER_SECONDS if is_helper else 0.0

    @property
    def scripted(self) -> str:
        """The model's reply, if that is a text."""
        return self.reply.text if isinstance(self.reply, Text) else ""

    @property
    def mostly_waits(self) -> bool:
        """Whether the engine mostly waits after its first request: for the model, for a tool, or because it hangs."""
        waits = self.hangs or self.tool is not None or bool(self.writes or self.ongoing or self.calls)
        return waits or not isinstance(self.reply, Text)


class Meeting:
    """Turns that run at the same time: each request waits until all of them have made one, or have ended.

    Their requests are told apart by the nonces of their prompts. Safe for threads.
    """

    def __init__(self, asked: Iterable[Ask], before: int) -> None:
        """Expect these turns at a backend that has had `before` requests."""
        self.asked, self.before = tuple(asked), before
        self._awaited, self._changed = {ask.nonce for ask in self.asked}, threading.Condition()

    def requested(self, exchange: Exchange) -> None:
        """Take a request, and wait for those of the other turns; not forever, since one may wait for another's end."""
        with self._changed:
            self._awaited.difference_update(exchange.nonces)
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._awaited, MEETING)

    def ended(self, ask: Ask) -> None:
        """Take the end of a turn."""
        with self._changed:
            self._awaited.discard(ask.nonce)
            self._changed.notify_all()

    def requests_of(self, ask: Ask, exchanges: Sequence[Exchange]) -> tuple[Exchange, ...]:
        """Return the requests that a turn may have made: not those that carry only the prompts of others."""
        others = {other.nonce for other in self.asked} - {ask.nonce}
        return tuple(
            exchange
            for exchange in exchanges[self.before :]
            if ask.nonce in exchange.nonces or others.isdisjoint(exchange.nonces)
        )


class Meant(Struct, frozen=True):
    """A turn to run: its step, the session to resume, and its input; `opens` says that it is a first turn."""

    step: str
    session: str | None
    ask: Ask
    opens: bool = False


class EngineDriver(Struct, frozen=True):
    """The engine, sandbox and observer of one case.

    `slot` limits how many engines work at once; what it yields frees the slot early. `startups` are those of the
    release. `meeting` is that of the turns that run beside each other now. `server` is the command of a server to test
    instead of the reference server.
    """

    case: str
    contract: EngineContract
    executable: Path
    sandbox: Sandbox
    slot: Callable[[], AbstractContextManager[Callable[[], None]]]
    interrupt: Interrupt
    note: Callable[[Observation], None]
    first: FirstTurn | None = None
    startups: Startups = field(default_factory=Startups)
    meeting: Meeting | None = None
    server: tuple[str, ...] = ()

    def start(self, step: str, ask: Ask) -> Turn:
        """Run a first turn."""
        return self._turn(step, ask, self._built(ask, partial(first_turn, via=ask.via)), None)

    def resume(self, step: str, session: str | None, ask: Ask) -> Turn:
        """Run a resumed turn; CaseStoppedError if there is no session to resume."""
        if session is None:
            raise CaseStoppedError("the previous turn reported no session id", by_engine=True)
        return self._turn(step, ask, self._built(ask, partial(resumed_turn, session=session)), session)

    def at_once(self, *meant: Meant) -> list[Turn]:
        """Run turns at the same time, in one slot, so that none waits for a slot while others wait for it."""
        backend = self.sandbox.backend
        backend.script(*(StubRule(each.ask.reply, contains=each.ask.nonce) for each in meant))
        meeting = Meeting((each.ask for each in meant), len(backend.exchanges()))
        backend.on_exchange(meeting.requested)
        driver = replace(self, slot=lambda: nullcontext(lambda: None), meeting=meeting)

        def play(each: Meant) -> Turn:
            try:
                if each.opens:
                    return driver.start(each.step, each.ask)
                return driver.resume(each.step, each.session, each.ask)
            finally:
                meeting.ended(each.ask)

        with self.slot(), ThreadPoolExecutor(len(meant), thread_name_prefix="at-once") as pool:
            return list(pool.map(play, meant))

    def page(
        self,
        step: str,
        arguments: Sequence[str],
        file: str = "",
        asking: Callable[[Sequence[str], Path], tuple[str, ...]] | None = None,
    ) -> CommandOutput:
        """Run a plain command, such as `--help`; a `file` that it writes counts as its standard output.

        `asking` makes of it the command that asks it.
        """
        command, work = (str(self.executable), *map(self.sandbox.fill, arguments)), self.sandbox.work
        started = asking(command, work) if asking else command
        request = ProcessRequest(started, work, self.sandbox.env(self.contract.hermetic, work), timeout=TURN_TIMEOUT)
        with self.slot(), self.interrupt.scope() as stop:
            done = self._proven(run(request, stop=stop))
        streams = (self._written(file) if file else done.stdout, done.stderr)
        page = CommandOutput(f"{self.case}/{step}", command, done.exit_code, done.ended, *streams, done.cpu_seconds)
        self.note(page)
        return page

    def stored(self, session: str | None) -> None:
        """Note in what form the engine stores a session; nothing of those that are among the user's own."""
        work = self.sandbox.work
        env = self.sandbox.env(self.contract.hermetic, work)
        if self.sandbox.account is None and (form := session_form(self.contract.store, session, env, work)):
            names = "\n".join(form).encode()
            self.note(CommandOutput(f"{self.case}/{SESSION}", (), 0, Ended.EXIT, names, b""))

    def _written(self, file: str) -> bytes:
        """Return what a command wrote into a file of the sandbox; nothing if there is no such file."""
        try:
            return read_regular(Path(self.sandbox.fill(file)), LONGEST_FILE)
        except OSError:
            return b""

    def until_later_minute(self, since: float) -> None:
        """Wait until the clock shows a later minute than it did at `since` (seconds since the epoch)."""
        while (left := (since // 60 + 1) * 60 - time.time()) > 0:
            self.interrupt.wait(left)

    def within(self, sandbox: Sandbox, env: Mapping[str, str], unset: Collection[str] = ()) -> "EngineDriver":
        """Return the driver of another sandbox, with more variables for the engine, and without those of `unset`."""
        hermetic = self.contract.hermetic
        kept = {name: value for name, value in hermetic.env.items() if name not in unset}
        contract = structs.replace(self.contract, hermetic=structs.replace(hermetic, env={**kept, **env}))
        return replace(self, sandbox=sandbox, contract=contract)

    def call_of(self, tool: ToolUse, *, direct: bool = False, **slots: str) -> ToolCall:
        """Return the model's call of a tool, with its arguments filled in; `slots` are further slots."""
        return called(self.contract, tool.name, self._filled(tool.arguments, **slots), direct=direct)

    def _rule_of(self, call: OngoingCall, nonce: str) -> StubRule:
        """Return the model's one call of a tool in a conversation, and neither for its title nor for another agent."""
        made = called(self.contract, call.tool, self._filled(call.arguments), direct=call.direct)
        return StubRule(made, nonce, offers_tools=True, times=1)

    def _filled(self, arguments: Mapping[str, Any], **slots: str) -> Mapping[str, Any]:
        return {key: self._fill(value, slots) for key, value in arguments.items()}

    def _fill(self, value: Any, slots: Mapping[str, str]) -> Any:
        match value:
            case str():
                return self.sandbox.fill(value, **slots)
            case list():
                return [self._fill(item, slots) for item in value]
            case dict():
                return self._filled(value, **slots)
        return value

    def _built(self, ask: Ask, build: Callable[..., Invocation]) -> Invocation:
        """Build a turn, with the options and the model for the stub backend unless the model is the user's own."""
        options, model = ask.options, None
        if self.sandbox.account is None:
            options = (*(self.sandbox.fill(token) for token in self.contract.hermetic.options), *options)
            model = ask.model or self.contract.asked_model
        return build(
            self.contract,
            ask.prompt,
            ask.mode,
            options=options,
            model=model,
            workspace=self.sandbox.root,
            allow_file_marks=True,
            artifacts=ask.artifacts,
        )

    def _turn(self, step: str, ask: Ask, built: Invocation, resumed: str | None) -> Turn:
        cwd = ask.cwd or self.sandbox.work
        request = process_request(built, self.executable, cwd, env=self.sandbox.env(self.contract.hermetic, cwd))
        if ask.stdin_open and built.stdin is None:
            request = structs.replace(request, stdin=Stdin.OPEN)
        if ask.slow_pipe:
            request = structs.replace(request, stdout_file=False)
        backend = self.sandbox.backend
        if self.meeting is None:
            self._script(ask)
        before = len(backend.exchanges())
        workspace = WatchedFolder(cwd)
        if ask.ongoing:
            backend.on_exchange(workspace.requested)
        check = None if self.first is None or self.first.is_known else self._first_check(request, ask, cwd)
        with check.watch if check else nullcontext():
            done = self._run_turn(request, ask, TurnReader.for_turn(built), check)
        reading = read_turn(
            self.contract,
            ask.mode,
            done.stdout,
            done.stderr,
            done.exit_code,
            turn_index=ask.turn_index,
            resumed=resumed,
            ended=done.ended,
        )
        exchanges = backend.exchanges()
        made = self.meeting.requests_of(ask, exchanges) if self.meeting else exchanges[before:]
        # requests to the user's own model are not observed
        requests = None if self.sandbox.account is not None else made
        started, stranger = self.sandbox.started(), self.sandbox.stranger
        effects = None if stranger is None else stranger.effects(requests or (), started or ())
        turn = Turn(
            name=f"{self.case}/{step}",
            argv=request.argv,
            own_arguments=built.own_arguments,
            cwd=str(cwd),
            mode=ask.mode,
            prompt=ask.prompt,
            nonce=ask.nonce,
            resumed=resumed,
            scripted=ask.scripted,
            exit_code=done.exit_code,
            ended=done.ended,
            finished_at=time.time(),
            seconds=done.seconds,
            cpu_seconds=done.cpu_seconds,
            stdout=done.stdout,
            stderr=done.stderr,
            leftovers=done.leftovers,
            requests=requests,
            reading=reading,
            turn_index=ask.turn_index,
            stdin="prompt" if built.stdin is not None else "open" if request.stdin is Stdin.OPEN else "closed",
            env=self.sandbox.variables(self.contract.hermetic, cwd, built.env),
            started=started,
            signal=ask.signal.name if ask.signal else None,
            acted=self.acted(ask, cwd),
            written=_written(ask.writes),
            dropped=done.dropped,
            exit_seconds=done.exit_seconds or 0.0,
            effects=effects,
            offline=ask.offline,
            changed=workspace.changes(),
            instructed=_instructed(ask, requests),
            in_force=ask.users.in_force(requests or (), started or (), self.sandbox) if ask.users else None,
            summary=ask.summary.nonce if ask.summary else "",
        )
        if check:
            check.ended(turn)
        self.note(turn)
        if self.first:
            self.first.check()
        return turn

    def _script(self, ask: Ask) -> None:
        """Let the model make the calls of a turn, and then reply."""
        direct = ask.model is not None
        called = [StubRule(self.call_of(ask.tool, direct=direct), after_tool_result=False)] if ask.tool else []
        # after a tool's result it is the conversation that goes on, whether or not tools are offered
        goes_on, offered = (True, None) if ask.tool else (None, True)
        called += [
            StubRule(write.call, after_tool_result=goes_on, offers_tools=offered, times=1) for write in ask.writes
        ]
        called += [self._rule_of(call, ask.nonce) for call in ask.ongoing]
        called += [StubRule(call, ask.nonce, offers_tools=True, times=1) for call in ask.calls]
        called += [ask.summary.rule] if ask.summary else []
        self.sandbox.backend.script(*called, StubRule(ask.reply))

    def _first_check(self, request: ProcessRequest, ask: Ask, cwd: Path) -> FirstTurnCheck:
        """Return what checks the first turn of all cases."""
        assert self.first is not None  # noqa: S101 - only a case that opens the others has it
        env = self.sandbox.env(self.contract.hermetic, cwd)
        wanted = {name: env[name] for name in ("HOME", *self.contract.hermetic.env)}
        return FirstTurnCheck(self.first, self.sandbox, request.argv, ask.nonce, wanted)

    def acted(self, ask: Ask, cwd: Path) -> bool | None:
        """Return whether the tool that the model asked for has created its file, and remove the file."""
        if ask.tool is None:
            return None
        left = cwd / ask.tool.creates_file
        acted = left.exists()
        left.unlink(missing_ok=True)
        return acted

    def _run_turn(
        self, request: ProcessRequest, ask: Ask, reader: TurnReader, check: FirstTurnCheck | None
    ) -> ProcessOutcome:
        """Run the command of a turn, and remove secrets from its output.

        If a turn may make no request, its patience counts from the start; after its terminal event, only the limit for
        the exit counts, or the slowest start if that took longer. A turn needs no slot while it mostly waits.
        """
        sandbox, patience = self.sandbox, ask.patience
        quiet = ask.stdin_open or ask.offline or sandbox.model_url != sandbox.backend.url
        limit = patience + STARTUP_ALLOWANCE if patience is not None and quiet else TURN_TIMEOUT
        limit += MEETING if self.meeting else 0.0
        startup = partial(self.startups.allowance, STARTUP_ALLOWANCE) if ask.hangs else None
        caller = SlowCaller(self.contract.final.stream, max(_BUSY, self.startups.slowest()) if ask.slow_pipe else 0.0)
        with (
            self.slot() as free_slot,
            self.interrupt.scope() as stop,
            TurnInterruption(ask.signal, patience, stop.set, startup, ask.moment) as mid_turn,
            self.startups.observing(mid_turn),
            _held(request.cwd / HELD, mid_turn, ask.moment),
        ):

            def received(stream: str, chunk: bytes) -> bool:
                # its reading is not used, because it still has secrets
                reader.feed("stdout" if stream == "stdout" else "stderr", chunk)
                caller.received(stream, chunk)
                if reader.over:
                    mid_turn.over()
                    mid_turn.strike("end")
                return reader.over

            def started(pid: int) -> None:
                if quiet:
                    free_slot()
                elif not ask.hangs:  # it may never make a request, and must not extend its own time for that
                    self.startups.begin(mid_turn)
                mid_turn.started(pid)
                caller.pid = pid
                if check:
                    check.watch.started(pid)

            def requested(exchange: Exchange) -> None:
                self.startups.called(mid_turn)
                if ask.mostly_waits:
                    free_slot()
                is_own = ask.nonce in exchange.nonces and not exchange.is_for_json
                mid_turn.requested(with_prompt=is_own, is_call=exchange.is_call)
                mid_turn.wait_until_over(ask.seconds_of_helper(exchange))

            sandbox.backend.on_exchange(self._own(ask, requested))
            if check:
                sandbox.backend.on_exchange(partial(check.requested, stop=stop.set))
            self._stop_when_offline(ask, stop)
            request = structs.replace(request, timeout=limit)
            done = run(request, stop=stop, on_output=received, on_start=started, slow_exit=self.startups.slowest)
        return self._proven(done)

    def _own(self, ask: Ask, requested: Callable[[Exchange], None]) -> Callable[[Exchange], None]:
        """Return what takes only the requests of this turn, if others run beside it."""
        if self.meeting is None:
            return requested
        return lambda exchange: requested(exchange) if ask.nonce in exchange.nonces else None

    def _stop_when_offline(self, ask: Ask, stop: Stop) -> None:
        """Stop a turn that can't reach its model once it has tried to, or has reached a stranger."""
        if ask.offline:
            self.sandbox.backend.on_egress(lambda tried: stop.set() if tried.host in ask.vendor else None)
            if self.sandbox.stranger:
                self.sandbox.stranger.backend.on_exchange(lambda _: stop.set())

    def _proven(self, done: ProcessOutcome) -> ProcessOutcome:
        """Remove secrets from the output.

        CaseStoppedError if the process was interrupted, MachineError if its disk is full: that proves nothing.
        """
        if self.interrupt.is_set() and done.ended is Ended.STOPPED:
            raise InterruptedCaseError
        if shutil.disk_usage(self.sandbox.root).free < LEAST_ROOM:
            hint = "free disk space, or set TURNGATE_CACHE_DIR (with --keep: that folder) to a folder on another disk"
            raise MachineError(f"the disk of {self.sandbox.root.parent} is full", hint)
        stdout, stderr = map(self.sandbox.without_secrets, (done.stdout, done.stderr))
        return structs.replace(done, stdout=stdout, stderr=stderr)


def _instructed(ask: Ask, requests: Iterable[Exchange] | None) -> bool | None:
    """Return whether a request with the prompt has the workspace's instructions; None if there are none."""
    if not ask.instructions or requests is None:
        return None
    return any(ask.nonce in request.nonces and ask.instructions.encode() in request.body for request in requests)


@contextmanager
def _held(file: Path, mid_turn: TurnInterruption, moment: Moment) -> Iterator[None]:
    """Make a file whose reader waits, and send the signal of a turn once there is one, if that is its moment."""
    if moment != "call":
        yield
        return
    over = threading.Event()

    def wait() -> None:
        writer = os.open(file, os.O_WRONLY)  # waits for a reader
        if not over.is_set():
            mid_turn.strike("call")
        os.close(writer)

    os.mkfifo(file)
    waiting = threading.Thread(target=wait, name="held", daemon=True)
    waiting.start()
    try:
        yield
    finally:
        over.set()
        while waiting.is_alive():
            reader = os.open(file, os.O_RDONLY | os.O_NONBLOCK)
            waiting.join(0.1)
            os.close(reader)
        file.unlink()


def _written(writes: Iterable[Write]) -> tuple[str, ...]:
    """Return the places whose file is there, and remove the files."""
    found = [write for write in writes if write.file.is_file()]
    for write in found:
        write.file.unlink()
    return tuple(write.place for write in found)


def called(contract: EngineContract, tool: str, arguments: Mapping[str, Any], *, direct: bool = False) -> ToolCall:
    """Return a call of a tool, `direct` or as the model makes it that the release takes by itself."""
    through = contract.hermetic.calls_through
    if through is None or direct:
        return ToolCall(tool, arguments)
    return ToolCall(tool, arguments, through=through.name, program=through.program(tool, arguments))


def ask(reply: Reply, *, turn_index: int = 1, mode: Mode = Mode.INTERACTIVE) -> Ask:
    """Return a prompt with a fresh nonce, to which the model replies with this."""
    nonce = new_nonce()
    prompt = "Ask me which colour I like." if turn_index == 1 else "blue"
    return Ask(f"{prompt} {nonce}", nonce, reply, mode=mode, turn_index=turn_index)
