"""The engine driver: single turns on the fake engine."""

import os
import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from signal import Signals
from typing import Any

import pytest
from msgspec import structs
from msgspec.structs import replace

from tests.probes import engines
from tests.probes.turns import CODEX
from turngate.contract.home_and_workspace import OngoingCall, ToolUse
from turngate.errors import MachineError
from turngate.model import Ended, Mode, Outcome
from turngate.process import execution
from turngate.process.execution import ProcessRequest
from turngate.process.turn_run import process_request
from turngate_probes.harness import driver as lab_module
from turngate_probes.harness.driver import ANSWER, FINAL, Ask, EngineDriver, Startups
from turngate_probes.harness.interrupt import CaseStoppedError, Interrupt
from turngate_probes.harness.observations import Observation
from turngate_probes.harness.sandbox import sandbox
from turngate_probes.stub_model import Hang, Refuse, StubBackend, StubRule, ToolCall, new_nonce


@pytest.fixture(name="played")
def _played(tmp_path: Path) -> Iterator[EngineDriver]:
    """A driver with the honest fake engine."""
    noted: list[Observation] = []
    with sandbox(CODEX.hermetic, tmp_path, "main", keep=False) as box:
        yield EngineDriver("main", CODEX, engines.install(tmp_path), box, engines.unlimited, Interrupt(), noted.append)


def ask(**changes: Any) -> Ask:
    """Return a request for a turn that gets a final answer."""
    nonce = new_nonce()
    return replace(Ask(f"What? {nonce}", nonce, FINAL), **changes)


def test_a_turn_is_seen_whole(played: EngineDriver) -> None:
    """A first turn has its argv, reading, requests and session id."""
    asked = ask()
    turn = played.start("first", asked)
    assert (turn.name, turn.exit_code, turn.ended) == ("main/first", 0, Ended.EXIT)
    assert turn.argv == (str(played.executable), *turn.own_arguments)
    pinned = played.contract.launch.interactive
    options = (*pinned, "--cd", str(played.sandbox.work))
    assert turn.own_arguments[-len(options) - 1 :] == (*options, "-")
    assert turn.reading.result.outcome is Outcome.FINAL
    assert turn.scripted == ANSWER
    assert [request.user_texts for request in turn.watched] == [(asked.prompt,)]
    assert turn.sent() == turn.watched
    assert turn.session
    assert turn.cwd == str(played.sandbox.work)


def test_calls_are_made_in_a_program_where_the_contract_says_so(played: EngineDriver) -> None:
    """The model calls a tool through another one, except a tool that it calls directly."""
    tool = ToolUse("exec_command", {"cmd": "ls {work}"})
    made = played.call_of(tool)
    filled = {"cmd": f"ls {played.sandbox.work}"}
    through = CODEX.hermetic.calls_through
    assert through
    assert made == ToolCall("exec_command", filled, through="exec", program=through.program("exec_command", filled))
    assert through.call_in(made.program or "") == ("exec_command", filled)
    plain = replace(played, contract=replace(CODEX, hermetic=replace(CODEX.hermetic, calls_through=None)))
    assert plain.call_of(tool) == ToolCall("exec_command", filled)


def test_ongoing_calls_may_be_direct(played: EngineDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that the contract marks as direct is no program, although others are."""
    scripted = list[StubRule]()
    monkeypatch.setattr(StubBackend, "script", lambda _, *rules: scripted.extend(rules))
    calls = (OngoingCall("agent", "spawn", {}, direct=True), OngoingCall("goal", "create", {}))
    played.start("first", ask(ongoing=calls))
    made = [rule.reply for rule in scripted if isinstance(rule.reply, ToolCall)]
    assert [(call.name, call.through) for call in made] == [("spawn", None), ("create", "exec")]


def test_a_resume_sees_its_own_requests_alone(played: EngineDriver) -> None:
    """A resumed turn has only its own requests, and can run in another directory."""
    first = played.start("first", ask())
    again = played.resume("again", first.session, ask(turn_index=2, cwd=played.sandbox.other))
    assert again.resumed == first.session == again.session
    assert len(again.watched) == 1
    assert again.watched[0].nonces == (first.nonce, again.nonce)
    assert again.cwd == str(played.sandbox.other)


def test_without_a_session_there_is_no_resume(played: EngineDriver) -> None:
    """Without a session id of the previous turn, resuming stops the case."""
    with pytest.raises(CaseStoppedError, match="reported no session id"):
        played.resume("again", None, ask())


def test_an_odd_handle_is_passed_on(played: EngineDriver) -> None:
    """A session id of an unfamiliar shape is passed on unless it can't be one."""
    with pytest.raises(Exception, match="looks like an option"):
        played.resume("bad", "--last", ask())
    turn = played.resume("bad", "not-a-session-id", ask())
    assert turn.exit_code == 1
    assert "not-a-session-id" in turn.argv


def test_the_prompt_may_be_forced_into_an_argument(played: EngineDriver) -> None:
    """A prompt passed as an argument is not listed among turngate's own arguments."""
    asked = ask(via="argument", stdin_open=True, patience=30.0)
    turn = played.start("first", asked)
    assert turn.argv[-2:] == ("--", asked.prompt)
    assert asked.prompt not in turn.own_arguments
    assert turn.exit_code == 0


def test_mode_auto_passes_its_flags(played: EngineDriver) -> None:
    """Only auto mode passes the contract's auto-approve flags."""
    assert "workspace-write" in played.start("first", ask(mode=Mode.AUTO)).own_arguments
    assert "workspace-write" not in played.start("second", ask()).own_arguments


def test_patience_ends_a_turn_after_its_first_request(played: EngineDriver) -> None:
    """A turn that still waits for the model at its deadline is stopped."""
    turn = played.start("first", ask(reply=Hang(), patience=0.2))
    assert (turn.ended, turn.reading.result.outcome) == (Ended.STOPPED, Outcome.ERROR)
    assert turn.seconds < lab_module.TURN_TIMEOUT / 2
    assert len(turn.watched) == 1


# an engine that first asks a model for JSON, as for which model should answer
ROUTING = """\
#!{python}
import json, subprocess, sys, urllib.request
prompt = sys.stdin.read()
asked = {{"contents": [{{"parts": [{{"text": prompt}}]}}], "generationConfig": {{"responseSchema": {{}}}}}}
without_proxy = urllib.request.build_opener(urllib.request.ProxyHandler({{}}))
without_proxy.open("{url}/v1beta/models/router:generateContent", json.dumps(asked).encode()).read()
sys.exit(subprocess.run(["{engine}", *sys.argv[1:]], input=prompt, text=True).returncode)
"""


def test_a_signal_comes_at_the_request_for_an_answer(played: EngineDriver, tmp_path: Path) -> None:
    """A request for JSON has the prompt too, but the signal comes at the next one, which is for an answer."""
    router = tmp_path / "router"
    slots = {"python": sys.executable, "url": played.sandbox.backend.url, "engine": str(played.executable)}
    router.write_text(ROUTING.format(**slots))
    router.chmod(0o755)
    asked = ask(reply=Hang(), signal=Signals.SIGKILL, patience=60.0)
    turn = replace(played, executable=router).start("first", asked)
    assert turn.signal is not None
    assert [request.reply for request in turn.sent()] == ["json", "hang"]


def test_patience_that_was_not_needed_does_no_harm(played: EngineDriver) -> None:
    """A turn that fails before its deadline ends by itself."""
    turn = played.start("first", ask(reply=Refuse(401), patience=60.0))
    assert (turn.ended, turn.exit_code) == (Ended.EXIT, 1)


def test_where_no_request_is_seen_patience_counts_from_the_start(
    played: EngineDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a request, the deadline counts from the start, plus a startup allowance."""
    monkeypatch.setattr(lab_module, "STARTUP_ALLOWANCE", 0.1)
    engines.install(tmp_path, "reads-stdin")
    turn = played.start("first", ask(via="argument", stdin_open=True, patience=0.1))
    assert turn.ended is Ended.TIMEOUT
    assert turn.watched == ()


def test_a_declared_hang_is_confirmed_at_its_limit(played: EngineDriver, tmp_path: Path) -> None:
    """A turn that the contract expects to hang needs no full startup allowance, once another turn made a request."""
    engines.install(tmp_path, "reads-stdin")
    stdin_open = {"via": "argument", "stdin_open": True, "patience": 0.1}
    assert played.start("first", ask()).watched
    silent = played.start("second", ask(**stdin_open, hangs=True))
    assert (silent.ended, silent.watched, silent.hung) == (Ended.STOPPED, (), True)
    assert silent.seconds < lab_module.STARTUP_ALLOWANCE / 2


def test_a_declared_hang_without_a_request_does_not_extend_its_own_time(played: EngineDriver, tmp_path: Path) -> None:
    """A turn that is declared to hang does not count as another one that is still starting."""
    assert played.start("first", ask()).watched
    engines.install(tmp_path, "hangs-on-the-dead")
    dead = played.contract.handle.nonexistent_id
    silent = played.resume("dead", dead, ask(turn_index=2, patience=0.1, hangs=True))
    assert (silent.ended, silent.watched, silent.hung) == (Ended.STOPPED, (), True)
    assert silent.seconds < lab_module.STARTUP_ALLOWANCE / 2


def test_a_declared_hang_that_is_gone_is_no_hang(played: EngineDriver) -> None:
    """A turn that makes its request in time has its whole deadline after that."""
    assert played.start("first", ask()).watched
    turn = played.start("second", ask(via="argument", stdin_open=True, patience=30.0, hangs=True))
    assert (turn.ended, turn.exit_code) == (Ended.EXIT, 0)


class SlowStarts(Startups):
    """The starts of a release whose slowest took a minute."""

    def slowest(self) -> float:
        """Return that minute."""
        return 60.0


def test_an_engine_may_exit_as_slowly_as_it_starts(played: EngineDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the slowest start took longer than the limit for an exit, an engine has as long to exit."""
    monkeypatch.setattr(execution, "EXIT_LIMIT", 0.0)
    turn = replace(played, startups=SlowStarts()).start("first", ask())
    assert (turn.ended, turn.exit_code) == (Ended.EXIT, 0)


class OneSlot:
    """A slot, and the events of its use."""

    def __init__(self) -> None:
        self.events: list[str] = []

    @contextmanager
    def held(self) -> Iterator[Callable[[], None]]:
        """Record when the slot is freed early and when the block ends."""
        yield lambda: self.events.append("freed")
        self.events.append("end")


@pytest.mark.long
@pytest.mark.parametrize(
    "changes, events",
    [
        ({}, ["request", "end"]),
        ({"patience": 30.0}, ["request", "end"]),
        ({"patience": 30.0, "hangs": True}, ["request", "freed", "end"]),
        ({"patience": 30.0, "reply": Refuse(401)}, ["request", "freed", "end"]),
        (
            {"patience": 30.0, "tool": ToolUse("exec_command", {})},
            ["request", "freed", "request", "freed", "end"],
        ),
        ({"patience": 30.0, "via": "argument", "stdin_open": True}, ["freed", "request", "end"]),
    ],
)
def test_a_turn_frees_its_slot_when_it_mostly_waits(
    played: EngineDriver, changes: dict[str, Any], events: list[str]
) -> None:
    """A turn that waits for the model or a tool, or hangs, frees its slot at its first request; others hold it.

    A turn that may make no request frees its slot at its start.
    """
    slot = OneSlot()
    played.sandbox.backend.on_exchange(lambda _: slot.events.append("request"))
    assert replace(played, slot=slot.held).start("first", ask(**changes)).ended is Ended.EXIT
    assert slot.events == events


def test_an_interrupt_ends_a_turn_and_leaves_no_note(played: EngineDriver) -> None:
    """A turn that is interrupted is not recorded."""
    noted: list[Observation] = []
    played = replace(played, note=noted.append)
    called = threading.Event()

    def interrupt(_: object) -> None:
        # on another thread, because the engine waits for this one
        threading.Thread(target=played.interrupt.set).start()
        called.set()

    played.sandbox.backend.on_exchange(interrupt)
    with pytest.raises(CaseStoppedError, match="interrupted"):
        played.start("first", ask(reply=Hang()))
    assert called.wait(10)
    assert noted == []


def test_a_page_is_seen_and_noted(played: EngineDriver) -> None:
    """The output of a command without a turn is recorded."""
    noted: list[Observation] = []
    page = replace(played, case="static", note=noted.append).page("version", ["--version"])
    assert (page.name, page.stdout, page.exit_code) == ("static/version", b"codex-cli 0.169.0\n", 0)
    assert noted == [page]


def test_an_interrupt_ends_a_page_and_leaves_no_note(played: EngineDriver, tmp_path: Path) -> None:
    """A version query that is interrupted is not recorded."""
    engines.install(tmp_path, "hangs-at-version")
    noted: list[Observation] = []
    played = replace(played, note=noted.append)
    os.mkfifo(tmp_path / "meeting")
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(played.page, "version", ["--version"])
        (tmp_path / "meeting").read_text()
        played.interrupt.set()
        with pytest.raises(CaseStoppedError, match="interrupted"):
            asked.result(timeout=30)
    assert noted == []


class Waiting(Interrupt):
    """An interrupt whose waits take no time, on a clock that lags behind them."""

    def __init__(self, now: float) -> None:
        super().__init__()
        self.now, self.waited = now, list[float]()

    def wait(self, seconds: float) -> None:
        """Advance the clock by all but a tenth of the wait, and by a tenth of a second at least."""
        self.waited.append(seconds)
        self.now += max(seconds * 0.9, 0.1)

    def time(self) -> float:
        """Return the time of the clock."""
        return self.now


@pytest.mark.parametrize("since, later", [(120.0, 180.0), (179.9, 180.0), (180.0, 240.0), (10.0, 179.0)])
def test_a_later_minute_begins_after_the_next_full_one(
    played: EngineDriver, monkeypatch: pytest.MonkeyPatch, since: float, later: float
) -> None:
    """The wait ends when the clock shows the next minute after the given time, at once if it already does."""
    waiting = Waiting(now=179.0 if since < 179 else since)
    monkeypatch.setattr(lab_module, "time", waiting)
    replace(played, interrupt=waiting).until_later_minute(since)
    assert later <= waiting.now < later + 0.1
    assert bool(waiting.waited) is (since != 10.0)


def test_output_that_is_too_much_is_counted(played: EngineDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """Output over the limit is dropped, and its size is recorded."""

    def small(*args: Any, **more: Any) -> ProcessRequest:
        return structs.replace(process_request(*args, **more), max_output=100)

    monkeypatch.setattr(lab_module, "process_request", small)
    turn = played.start("first", ask())
    assert len(turn.stdout) == 100
    assert turn.dropped > 0


def test_a_full_disk_says_nothing_about_the_engine(played: EngineDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an engine does on a full disk is not observed; the error names the disk and what to do."""
    full = shutil.disk_usage(played.sandbox.root)._replace(free=lab_module.LEAST_ROOM - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    for act in (lambda: played.start("first", ask()), lambda: played.page("version", ("--version",))):
        with pytest.raises(MachineError, match=f"the disk of {played.sandbox.root.parent} is full") as failed:
            act()
        assert "TURNGATE_CACHE_DIR" in failed.value.hint
