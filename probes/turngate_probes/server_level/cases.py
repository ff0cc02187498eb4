"""Cases of an engine behind the reference server: resumed turns, a sticky process, and their failures."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from typing import Any

from msgspec.structs import replace

from turngate import EngineContract
from turngate.contract.clauses import Reason
from turngate.contract.home_and_workspace import ApprovalSetting, ToolUse
from turngate_probes.harness import settings_cases
from turngate_probes.harness.cases import FIRST_TURN, Case
from turngate_probes.harness.driver import ASK, FINAL, Ask, EngineDriver, ask
from turngate_probes.harness.interrupt import CaseStoppedError
from turngate_probes.harness.server_calls import ALLOWED, DECLINED, HANGS, RACERS, REFUSED, REPEATS, SCHEMA
from turngate_probes.server_level.server_run import TURN_LIMIT, ServerRun, UnsafeRunError
from turngate_probes.server_level.shim import install
from turngate_probes.stub_model import Hang, Refuse, Reply, Text, new_nonce

# a question without a prompt
MALFORMED = '{"outcome": "ask_user", "interaction": {"kind": "choose_one", "options": ["red", "blue"]}}'
SHORT_LIMIT = 20  # seconds for an engine that never gives up; a working one needs less for a turn
NO_OPTION = "perhaps"
NO_TRANSPORT = "its contract has no sticky transport"
FAR = 10 * TURN_LIMIT  # a deadline that no case waits for, so that it can't be what ended a turn
SPARE, SPARE_TURNS = 8, 3  # in seconds, and as a multiple of a turn's duration


def _loop(run: ServerRun) -> None:
    schema: dict[str, Any] = {} if run.driver.server else {"output_schema": SCHEMA}
    run.create(ASK, **schema)
    run.settle("asked")
    question = run.question("question")
    run.restart()
    run.show("restarted")
    run.question("question-again")
    run.reply("reply", question, ask(FINAL, turn_index=2))
    run.settle("ended")


def _dead_handle(run: ServerRun) -> None:
    run.create(ASK)
    run.settle("asked")
    question = run.question("question")
    run.lose_session("another")
    run.reply("reply", question, ask(FINAL, turn_index=2))
    run.settle("ended")


def _one_turn(reply: Reply) -> Callable[[ServerRun], None]:
    def play(run: ServerRun) -> None:
        run.create(reply)
        run.settle("ended")

    return play


def _engine_failure(run: ServerRun) -> None:
    declared = {d.symptom for d in run.driver.contract.deviations if d.clause == "backend.failure-told"}
    run.create(Refuse(REFUSED), timeout=SHORT_LIMIT if HANGS in declared else TURN_LIMIT)
    run.settle("ended")


def _cancel(run: ServerRun) -> None:
    run.create(Hang(), timeout=FAR)
    run.until_asked()
    run.cancel("cancel")
    run.settle("ended")


def _one_reply(run: ServerRun) -> None:
    run.create(ASK)
    run.settle("asked")
    run.race("reply", run.question("question"), [ask(ASK, turn_index=2) for _ in range(RACERS)])
    run.settle("asked-again")
    if run.run.get("state") != "waiting_user":
        raise CaseStoppedError("after the first reply, the run does not ask again", by_engine=True)
    again = ask(FINAL, turn_index=3)
    run.race("repeated", run.question("question-again"), [again] * REPEATS, key=new_nonce())
    run.settle("ended")


def _sticky(run: ServerRun) -> None:
    run.create(ASK)
    run.waits("asked")
    question = run.question("question")
    run.note_turn("turn-1")
    tool = run.driver.contract.hermetic.tool_call
    run.reply("reply", question, replace(ask(ASK, turn_index=2), tool=tool))
    if tool is not None:
        _decline(run)
    run.waits("asked-again")
    question = run.question("question-again")
    run.note_turn("turn-2")
    run.reply("reply-again", question, ask(FINAL, turn_index=3))
    run.ends("ended")
    run.note_turn("turn-3")
    run.note_further_starts()


def _decline(run: ServerRun) -> None:
    """Reply to a permission request, first with an invalid option, then with the one that declines."""
    run.waits("acting")
    asked = run.question("permission")
    if asked["kind"] != "risk_ack":
        return
    run.answer("no-option", asked, NO_OPTION)
    run.show("unmoved")
    run.answer("declined", asked, asked["options"][-1])


def _acts(run: ServerRun, step: str, asked: Ask, question: dict[str, Any] | None, choice: int) -> None:
    """Run a turn in which the model asks for a tool, and answer a request for permission by the option at `choice`."""
    if question is None:
        run.create(asked.reply, step=f"{step}-create", tool=asked.tool)
    else:
        run.reply(f"{step}-reply", question, asked)
    run.follow(f"{step}-acting")
    if run.is_waiting and (permission := run.question(f"{step}-permission"))["kind"] == "risk_ack":
        run.answer(f"{step}-answer", permission, permission["options"][choice])
        run.follow(f"{step}-after")
    run.note_turn(step)


def _tools(driver: EngineDriver, settings: Sequence[ApprovalSetting] = ()) -> Mapping[str, ToolUse]:
    tools = settings_cases.calls(driver.contract, settings)
    if not tools:
        raise CaseStoppedError("its contract names no tool for the model to call", Reason.CONTRACT)
    return tools


def _all_act(run: ServerRun, asked: Iterable[tuple[str, ToolUse, int]]) -> None:
    """Let the model ask for each tool in a turn of one process, while the run waits; each has a step and a choice."""
    question: dict[str, Any] | None = None
    for number, (step, tool, choice) in enumerate(asked, 1):
        _acts(run, step, replace(ask(ASK, turn_index=number), tool=tool), question, choice)
        if not run.is_waiting:
            break
        question = run.question(f"{step}-question")


def _sticky_allowed(run: ServerRun) -> None:
    """Allow what the model asks for, then decline it."""
    tools = _tools(run.driver).items()
    decisions = ((ALLOWED, 0), (DECLINED, -1))
    _all_act(run, [(f"{made}-{call}", tool, choice) for made, choice in decisions for call, tool in tools])
    run.cancel("cancel")
    run.ends("ended")


def _sticky_own_settings(driver: EngineDriver) -> None:
    """Decline what the model asks for, where the user's settings would allow it, if the engine asks at all."""
    for name, settings in settings_cases.groups(driver.contract.approval_settings).items():
        inside = settings_cases.with_settings(driver, name, settings)
        # a run that is rejected for safety is what the clause wants
        with _serving(inside) as run, suppress(UnsafeRunError):
            _all_act(run, [(f"{name}-{call}", tool, -1) for call, tool in _tools(driver, settings).items()])
            run.cancel(f"{name}-cancel")
            run.ends(f"{name}-ended")


def _sticky_workspace(driver: EngineDriver) -> None:
    """Run two turns of one process in the repository of a stranger; without a model, one that fails."""
    driver.sandbox.backend.ignore_egress()
    for name, redirects in settings_cases.groups(driver.contract.redirects).items():
        missing = settings_cases.unset(redirects)
        with settings_cases.in_repository(driver, name, redirects) as visitor:
            settings_cases.settle_in(visitor, redirects)
            with _serving(visitor.within(visitor.sandbox, {}, missing)) as run:
                run.create(ASK, timeout=SHORT_LIMIT if missing else TURN_LIMIT)
                run.follow(f"{name}-asked")
                run.note_turn(f"{name}-first")
                if run.is_waiting:
                    run.reply(f"{name}-reply", run.question(f"{name}-question"), ask(FINAL, turn_index=2))
                    run.ends(f"{name}-ended")
                    run.note_turn(f"{name}-again")


@contextmanager
def _serving(driver: EngineDriver, *, sticky: bool = True, hide: bool = False) -> Iterator[ServerRun]:
    given = _given(driver) if driver.server else None
    shim = install(driver.contract, driver.executable, driver.sandbox.root, hide=hide, given=given)
    with closing(ServerRun(driver, shim, sticky)) as run:
        run.open()
        yield run


def _sticky_ends(run: ServerRun) -> None:
    """End three waits: by killing the process, by a timeout, and by killing the server."""
    run.create(ASK)
    began = time.monotonic()
    run.waits("killed-asked")
    turn_took = time.monotonic() - began
    run.kill_process()
    run.note_turn("killed", run.ends("killed-ended"))
    # the limit applies to the turn too, which must end before it even on a busy machine
    run.create(ASK, timeout=min(int(SPARE + SPARE_TURNS * turn_took), TURN_LIMIT))
    run.waits("late-asked")
    run.ends("late-ended")
    run.note_turn("late")
    run.create(ASK)
    run.waits("orphan-asked")
    run.restart()
    run.ends("orphan-ended")
    run.note_turn("orphan")


def _sticky_settings_turns(contract: EngineContract) -> int:
    groups = settings_cases.groups(contract.approval_settings).values()
    return sum(len(settings_cases.calls(contract, settings)) for settings in groups)


def _sticky_workspace_turns(contract: EngineContract) -> int:
    return sum(1 if settings_cases.unset(each) else 2 for each in settings_cases.groups(contract.redirects).values())


def _given(driver: EngineDriver) -> Mapping[str, str]:
    """Return the variables that an engine needs in a sandbox, which a server may keep from it."""
    env = driver.sandbox.env(driver.contract.hermetic, driver.sandbox.work)
    return {name: env[name] for name in ("TURNGATE_SIMULATE_URL", *driver.contract.hermetic.env) if name in env}


def _held(
    play: Callable[[EngineDriver], None], *, sticky: bool = True, waits: bool = False
) -> Callable[[EngineDriver], None]:
    """Play a case in one slot, which one that waits frees."""

    def run_case(driver: EngineDriver) -> None:
        if sticky and driver.contract.sticky.transport == "none":
            raise CaseStoppedError(NO_TRANSPORT, Reason.CONTRACT)
        with driver.slot() as free_slot:
            if waits:
                free_slot()
            play(driver)

    return run_case


def _case(
    name: str,
    play: Callable[[ServerRun], None],
    steps: int | Callable[[EngineContract], int],
    *,
    sticky: bool = False,
    hide: bool = False,
    waits: bool = False,
) -> Case:
    """Wrap steps on a server as a case; `hide`: the engine's output lacks session ids."""

    def served(driver: EngineDriver) -> None:
        with _serving(driver, sticky=sticky, hide=hide) as run:
            play(run)

    return Case(name, _held(served, sticky=sticky, waits=waits), steps, waits, level="server")


RESUMED_CASES = (
    _case("loop", _loop, 2),
    _case("one-reply", _one_reply, 3),
    _case("dead-handle", _dead_handle, 2),
    _case("missing-handle", _one_turn(ASK), 1, hide=True),
    _case("engine-failure", _engine_failure, 1),
    _case("bad-envelope", _one_turn(Text(MALFORMED)), 1),
    _case("cancel", _cancel, 1),
)
STICKY_CASES = (
    _case("sticky", _sticky, 3, sticky=True),
    _case("sticky-ends", _sticky_ends, 3, sticky=True, waits=True),
    _case("sticky-allowed", _sticky_allowed, lambda contract: 2 * len(settings_cases.calls(contract)), sticky=True),
)
SURROUNDED_CASES = (
    Case("sticky-own-settings", _held(_sticky_own_settings), _sticky_settings_turns, level="server"),
    Case("sticky-workspace", _held(_sticky_workspace), _sticky_workspace_turns, level="server"),
)
SERVER_CASES = (FIRST_TURN, *RESUMED_CASES, *STICKY_CASES, *SURROUNDED_CASES)
