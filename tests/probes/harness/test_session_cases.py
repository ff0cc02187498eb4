"""The cases that disturb sessions, and those in which several turns run at the same time."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from tests.probes import engines
from tests.probes import turns as t
from tests.tables import each
from turngate.contract import load
from turngate.contract.engine_contract import EngineContract
from turngate.contract.home_and_workspace import ToolUse
from turngate.model import Mode
from turngate_probes.harness.driver import Ask
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.harness.runner import CaseRunner
from turngate_probes.harness.session_cases import disturbances, disturbed, disturbed_turns, running

ENGINES = [load.contract(name).at() for name in load.engine_names()]
STEPS = [
    "called",
    "call-failed",
    "failed-401",
    "failed-429",
    "failed-500",
    "failed-cut",
    "killed-in-request",
    "killed-in-call",
    "killed-at-end",
    "last",
]


@each("contract", ENGINES, shown=lambda contract: contract.engine)
def test_every_engine_can_run_another_command(contract: EngineContract) -> None:
    """The command in each contract's call is found, and nothing else of the call changes."""
    call = contract.hermetic.command_call
    assert call is not None
    held = running(call, "cat held")
    changed = {key: value for key, value in held.arguments.items() if value != call.arguments[key]}
    assert len(changed) == 1
    assert "cat held" in str(next(iter(changed.values()))).replace("', '", " ")
    assert call.creates_file not in str(held.arguments)


def test_a_command_may_be_a_list_or_a_part_of_a_program() -> None:
    """Where a call takes a list of words or a program that runs the command, the command is still found."""
    words = ToolUse("shell", {"command": ["touch", "ran.txt"]}, "ran.txt")
    program = ToolUse("exec", {"input": 'await tools.run({cmd: "touch ran.txt"})'}, "ran.txt")
    assert running(words, "cat held").arguments == {"command": ["cat", "held"]}
    assert running(program, "cat held").arguments == {"input": 'await tools.run({cmd: "cat held"})'}


def test_without_a_command_a_session_is_disturbed_otherwise() -> None:
    """A contract without a command leaves out the steps that need one."""
    silent = replace(t.CODEX, hermetic=replace(t.CODEX.hermetic, command_call=None))
    assert [each.step for each in disturbances(t.CODEX)] == STEPS
    assert [each.step for each in disturbances(silent)] == [
        step for step in STEPS if step not in ("call-failed", "killed-in-call")
    ]
    assert disturbed_turns(t.CODEX) == len(STEPS)


class Forgetful:
    """A driver that runs nothing, and whose session is lost at one step."""

    def __init__(self, lost_at: str) -> None:
        self.contract, self.lost_at = t.CODEX, lost_at
        self.played = list[tuple[str, str | None]]()

    def start(self, step: str, _asked: Ask) -> SimpleNamespace:
        """Note a first turn, whose session is named like the step."""
        self.played.append((step, None))
        return SimpleNamespace(session=step)

    def resume(self, step: str, session: str, _asked: Ask) -> SimpleNamespace:
        """Note a resumed turn."""
        self.played.append((step, session))
        return SimpleNamespace(carries=lambda _: step != self.lost_at)


def test_what_follows_a_loss_happens_to_a_new_session() -> None:
    """The step at which the session is lost is repeated in another one, which then goes on; after the last, none is."""
    driver: Any = Forgetful("failed-500")
    disturbed(driver)
    opening = "failed-500-opening"
    assert driver.played == [
        ("called", None),
        *((step, "called") for step in STEPS[1:5]),
        (opening, None),
        ("failed-500-repeated", opening),
        *((step, opening) for step in STEPS[5:]),
    ]
    late: Any = Forgetful("last")
    disturbed(late)
    assert len(late.played) == len(STEPS)


@pytest.mark.long
def test_a_session_is_disturbed_on_an_engine(tmp_path: Path) -> None:
    """Calls take effect, models fail, kills come in the request, in the call and at the end; the session goes on."""
    observed = engines.play(engines.install(tmp_path), tmp_path, "disturbed").observed
    turns = {name.partition("/")[2]: turn for name, turn in observed.turns.items()}
    assert list(turns) == STEPS
    assert {turn.mode for turn in turns.values()} == {Mode.AUTO}
    assert turns["called"].acted
    assert [turns[step].watched[0].reply for step in STEPS[2:6]] == ["refuse 401", "refuse 429", "refuse 500", "cut"]
    killed = {step for step, turn in turns.items() if turn.exit_code == -9}
    # at its terminal event, the engine may be faster
    assert killed | {"killed-at-end"} == {step for step in STEPS if "killed" in step}
    assert [turns[step].watched[-1].reply for step in STEPS[6:9]] == ["hang", "tool_call exec_command", "text"]
    assert turns["killed-at-end"].reading.ended
    assert turns["last"].carries(turns["called"], turns["killed-at-end"])
    assert not any(turn.leftovers for turn in turns.values())


@pytest.mark.long
@pytest.mark.parametrize("faults", [(), ("shares-sessions",)])
def test_turns_run_at_the_same_time(faults: tuple[str, ...], tmp_path: Path) -> None:
    """Each of the turns beside each other asks its model before one of them ends, unless it is refused."""
    observed = engines.play(engines.install(tmp_path, *faults), tmp_path, "at-once").observed
    turns = {name.partition("/")[2]: turn for name, turn in observed.turns.items()}
    b, again, beside = beside_a = [turns[step] for step in ("b-first", "a-again", "a-beside")]
    last, b_again = later = [turns[step] for step in ("a-last", "b-again")]
    for together in (beside_a, later):
        asked = [turn for turn in together if turn.watched]
        assert max(turn.watched[0].at for turn in asked) < min(turn.finished_at for turn in asked)
        assert all(turn.watched == turn.sent() for turn in asked)
        assert all(turn.scripted == turn.reading.final_text for turn in asked)
    assert [turn.exit_code for turn in (again, beside)].count(1) == (0 if faults else 1)
    assert [turn.resumed for turn in (again, beside, last)] == [turns["a-first"].session] * 3
    assert b_again.resumed == b.session
    assert sum(last.carries(turn) for turn in (again, beside)) == 1


def test_one_slot_is_enough_for_turns_at_the_same_time(tmp_path: Path) -> None:
    """With one job all turns of a meeting run, because none waits for the slot of another."""
    spectator = engines.Spectator(t.CODEX)
    runner = CaseRunner.of(tmp_path / "sandboxes", 1, Interrupt())
    runner.play(t.CODEX, engines.install(tmp_path), engines.named("at-once"), spectator)
    assert len(spectator.observed.turns) == 6
