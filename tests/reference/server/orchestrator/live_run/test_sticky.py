"""Tests of sticky runs: one process for all turns, its deadline, its death, and its permission requests."""

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec import UNSET
from msgspec.structs import replace

from tests.longer import first_quick
from tests.patience import PATIENCE
from tests.reference.crash import kill_server
from tests.reference.server.sticky_env import create, move_deadlines, pid_of, put_engine, slots_are_free
from tests.reference.server_env import ASK, ServerEnv, final
from turngate import mode_patch
from turngate.model import EngineInteractiveProfile, EngineResumeCapability, Mode, Reported
from turngate.process.family import is_alive
from turngate.turn.read import NO_ANSWER
from turngate_reference.engine.attempt import InstalledEngine
from turngate_reference.server.orchestrator import commands, profiles
from turngate_reference.server.orchestrator.headless import artifact_patch
from turngate_reference.server.orchestrator.profiles import Profiles
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.requests import ApiError
from turngate_reference.server.store import runs
from turngate_reference.server.store.events import DeliveryEvent
from turngate_reference.server.store.runs import RunProfile, StoredQuestion, StoredTurn
from turngate_reference.states import Delivery, State

HERE = Path(__file__).parents[2]
ROOT = HERE.parents[1]
OFF = ("hooks", "goals", "multi_agent", "multi_agent_v2")
SERVING = ["app-server", *(token for feature in OFF for token in ("--config", f"features.{feature}=false"))]
DECIDED = '{"outcome": "final", "final_data": {"decided": "RESULT"}}'
DECLINED = "the user declined"


@pytest.fixture(name="server_env")
def _server_env(closed_server_env: ServerEnv) -> Iterator[ServerEnv]:
    """Provide a server with two slots and a sticky Codex."""
    put_engine(closed_server_env)
    closed_server_env.open()
    yield closed_server_env
    closed_server_env.server.close()


def test_ten_turns_run_in_one_process(server_env: ServerEnv) -> None:
    """Every reply goes to the same process, which keeps its slot; each question is stored with its details."""
    run_id = create(server_env, f"say {ASK}")
    pids = set()
    for turn in range(1, 10):
        question = server_env.question(run_id)
        run = server_env.run(run_id)
        assert (run.turn_index, server_env.server.owner.held) == (turn, 1)
        assert run.wait_deadline_at
        assert run.process
        pids.add((run.process.pid, run.process.started_at, run.process.transport_session_id))
        server_env.reply(run_id, question, f"do: say {ASK if turn < 9 else final(x=1)}")
    run = server_env.wait(run_id, State.SUCCEEDED)
    assert (run.turn_index, run.final_data, run.wait_deadline_at) == (10, {"x": 1}, None)
    assert run.profile
    assert replace(run.profile, no_artifacts=UNSET) == RunProfile("sticky_process", "the run requested it", 1200)
    assert len(pids) == 1
    assert [turn.argv for turn in runs.turns(server_env.server.store, run_id)] == [SERVING] * 10
    reported = runs.events(server_env.server.store, run_id, 0, 1000)
    deliveries = [event.data.delivery for event in reported if isinstance(event.data, DeliveryEvent)]
    assert deliveries == [Delivery.NEW_PROCESS, *[Delivery.LIVING_PROCESS] * 9]
    assert slots_are_free(server_env)
    assert server_env.states(run_id)[:4] == ["queued", "running", "waiting_user", "running"]


def test_an_engine_is_allowed_to_ask_whatever_the_caller_wrote(server_env: ServerEnv) -> None:
    """Each interactive turn's prompt ends with the permission to ask, even after a skill that forbids asking."""
    run_id = create(server_env, f"say {ASK}", skill="Never ask the user a question.")
    server_env.reply(run_id, server_env.question(run_id), f"do: say {final(x=1)}")
    run = server_env.wait(run_id, State.SUCCEEDED)
    first, second = map(json.loads, (server_env.cli_env.path / "prompts").read_text().splitlines())
    assert first.startswith("Never ask the user a question.\n\ndo: say")
    added = f"\n\n{mode_patch(Mode.INTERACTIVE, None)}"
    assert first.endswith(added)
    assert second.endswith(added)
    # nothing limits the process to their directory
    assert artifact_patch(run.artifacts) not in first + second
    assert run.profile
    assert "kept between turns" in str(run.profile.no_artifacts)


@pytest.mark.parametrize("mode", Mode)
@pytest.mark.parametrize("fault", ["omits-answer", "blank-answer"])
def test_a_blank_answer_of_a_kept_process_fails_the_run(server_env: ServerEnv, mode: Mode, fault: str) -> None:
    """What the agent leaves empty or white is no answer, in whatever process the turn ran."""
    error = server_env.failed(create(server_env, f"say hi\nfault: {fault}", mode))
    assert (error.code, error.detail) == ("ENGINE_FAILED", NO_ANSWER)


def test_the_record_and_the_command_are_kept(server_env: ServerEnv) -> None:
    """The record holds a session that a headless resume accepts, and the argv, as a headless turn's would."""
    run_id = create(server_env, f"say {ASK}")
    server_env.question(run_id)
    folder = server_env.run(run_id).run_directory
    run = server_env.run(run_id)
    record = server_env.cli_env.record(run.handle)
    assert run.process
    assert (record["session"]["value"], record["state"]) == (run.process.transport_session_id, "waiting_user")
    command = json.loads((folder / ".turngate/attempt-001/command.json").read_text())
    assert command == {"argv": [str(server_env.cli_env.path / "codex"), *SERVING], "version": "0.169.0"}


def test_a_change_of_the_wall_clock_ends_no_wait(server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reply is accepted while the process is kept, whatever the system clock says."""
    run_id = create(server_env, f"say {ASK}")
    question = server_env.question(run_id)
    monkeypatch.setattr(runs, "now", lambda: "2999-01-01T00:00:00.000+00:00")
    server_env.reply(run_id, question, f"do: say {final(x=1)}")
    server_env.wait(run_id, State.SUCCEEDED)


def test_a_text_longer_than_the_process_takes_is_refused(server_env: ServerEnv) -> None:
    """Neither a prompt nor a reply is taken, and the run keeps waiting."""
    with pytest.raises(ApiError, match="PROMPT_REFUSED"):
        create(server_env, "x" * 2**20)
    run_id = create(server_env, f"say {ASK}")
    question = server_env.question(run_id)
    with pytest.raises(ApiError, match=r"PROMPT_REFUSED: .* of a sticky codex"):
        server_env.reply(run_id, question, "x" * 2**20)
    server_env.reply(run_id, question, f"do: say {final(x=1)}")
    server_env.wait(run_id, State.SUCCEEDED)


def test_a_wait_has_a_deadline(server_env: ServerEnv) -> None:
    """At the deadline, the process is ended and the run fails; a later reply is rejected."""
    run_id = create(server_env, f"say {ASK}", session_timeout_sec=1000)
    question = server_env.question(run_id)
    process = psutil.Process(pid_of(server_env, run_id))
    move_deadlines(server_env, 1000)
    assert server_env.failed(run_id).code == "INTERACTION_WAIT_TIMEOUT"
    with pytest.raises(ApiError, match="NOT_WAITING"):
        server_env.reply(run_id, question)
    assert slots_are_free(server_env)
    assert not process.is_running()


@pytest.mark.parametrize("number", first_quick([signal.SIGKILL, signal.SIGTERM]))
def test_a_process_that_dies_while_it_waits_is_noticed(server_env: ServerEnv, number: int) -> None:
    """The run fails by itself, and its slot is freed."""
    run_id = create(server_env, f"say {ASK}")
    server_env.question(run_id)
    os.kill(pid_of(server_env, run_id), number)
    assert server_env.failed(run_id).code == "INTERACTION_PROCESS_LOST"
    assert slots_are_free(server_env)


def test_a_process_that_is_lost_before_it_gets_a_reply_fails_the_turn_of_the_reply(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reply has begun a turn, which ends like any other; the turn before it keeps its end."""
    run_id = create(server_env, f"say {ASK}")
    question = server_env.question(run_id)
    host = server_env.server.host
    monkeypatch.setattr(host, "prompt", lambda *_, **_more: os.kill(pid_of(server_env, run_id), signal.SIGKILL))
    server_env.reply(run_id, question)
    assert server_env.failed(run_id).code == "INTERACTION_PROCESS_LOST"
    asked, lost = turns(server_env, run_id)
    assert (asked.outcome, asked.failure) == ("ask_user", None)
    assert (lost.outcome, (lost.failure and lost.failure.code)) == ("error", "INTERACTION_PROCESS_LOST")
    assert lost.ended_at
    assert slots_are_free(server_env)


@pytest.mark.parametrize(
    "do,first,later",
    [
        ("say x\nfault: dies-in-turn", "ENGINE_FAILED", "INTERACTION_PROCESS_LOST"),
        pytest.param("fail", "ENGINE_FAILED", "ENGINE_FAILED", marks=pytest.mark.long),
        pytest.param("say nonsense", "ENVELOPE_INVALID", "ENVELOPE_INVALID", marks=pytest.mark.long),
    ],
)
def test_a_turn_that_fails_fails_the_run(server_env: ServerEnv, do: str, first: str, later: str) -> None:
    """On turn 1, the engine is blamed for dying; later, the lost process is the reason."""
    assert server_env.failed(create(server_env, do)).code == first
    run_id = create(server_env, f"say {ASK}")
    server_env.reply(run_id, server_env.question(run_id), f"do: {do}")
    assert server_env.failed(run_id).code == later
    assert slots_are_free(server_env)


def test_a_turn_that_can_not_be_saved_leaves_no_process(server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody would take the process again, or end it."""
    run_id = create(server_env, f"say {ASK}")
    question = server_env.question(run_id)

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(Records, "keep", fail)
    process = psutil.Process(pid_of(server_env, run_id))
    server_env.reply(run_id, question)
    assert slots_are_free(server_env)
    assert not process.is_running()


def test_a_turn_is_bounded(server_env: ServerEnv) -> None:
    """A process that hangs is ended by its turn's timeout."""
    run_id = create(server_env, f"say {ASK}", session_timeout_sec=1000)
    server_env.reply(run_id, server_env.question(run_id), "do: hang")
    server_env.cli_env.meet_word()
    move_deadlines(server_env, 1000)
    assert server_env.failed(run_id).code == "TURN_TIMEOUT"
    assert slots_are_free(server_env)


@pytest.mark.parametrize("choice", ["accept", "decline"])
def test_an_action_is_asked_for(server_env: ServerEnv, choice: str) -> None:
    """A permission request becomes a risk_ack question with one-time options; the turn goes on and reports a denial."""
    run_id = create(server_env, f"act {DECIDED}")
    question = server_env.question(run_id)
    assert question.question.kind == "risk_ack"
    assert question.question.options == ("accept", "decline")
    assert "touched.txt" in str(question.question.context)
    with pytest.raises(ApiError, match="REPLY_NOT_AN_OPTION"):
        server_env.reply(run_id, question, "yes please")
    assert server_env.run(run_id).state is State.WAITING_USER
    server_env.reply(run_id, question, choice)
    run = server_env.wait(run_id, State.SUCCEEDED)
    assert (run.final_data, run.turn_index) == ({"decided": "done" if choice == "accept" else DECLINED}, 1)
    denied = () if choice == "accept" else (Reported("denied", "commandExecution"),)
    assert [turn.reported for turn in runs.turns(server_env.server.store, run_id)] == [denied]


def test_requests_at_once_are_asked_one_by_one(server_env: ServerEnv) -> None:
    """Two requests become two questions, each with its own id."""
    run_id = create(server_env, f"act {DECIDED}\nfault: asks-twice")
    first = server_env.question(run_id)
    server_env.reply(run_id, first, "accept")
    second = question_after(server_env, run_id, first)
    server_env.reply(run_id, second, "decline")
    assert server_env.wait(run_id, State.SUCCEEDED).final_data == {"decided": DECLINED}


@pytest.mark.parametrize("text,state", [(final(x=1), State.SUCCEEDED), (ASK, State.WAITING_USER)])
def test_an_action_is_no_question_any_more_when_its_turn_ends(server_env: ServerEnv, text: str, state: State) -> None:
    """The run continues with the turn's result, and the request can't be decided any more."""
    run_id = create(server_env, f"act {text}\nfault: abandons-request")
    (ended,) = until(server_env, run_id, "turn.ended")
    assert ended["outcome"] == ("final" if state is State.SUCCEEDED else "ask_user")
    server_env.wait(run_id, state)
    asked, *_ = until(server_env, run_id, "interaction")
    assert asked["kind"] == "risk_ack"
    void = runs.question(server_env.server.store, asked["interaction_id"])
    assert void
    with pytest.raises(ApiError, match=r"INTERACTION_STALE|NOT_WAITING"):
        server_env.reply(run_id, void, "accept")
    if state is State.WAITING_USER:
        server_env.reply(run_id, server_env.question(run_id), f"do: say {final(x=1)}")
        assert server_env.wait(run_id, State.SUCCEEDED).turn_index == 2


def until(server_env: ServerEnv, run_id: str, kind: str) -> list[dict[str, Any]]:
    """Wait for an event of a kind; return the data of all events of that kind."""
    after = 0
    while not (reported := [e for e in runs.events(server_env.server.store, run_id, 0, 1000) if e.type == kind]):
        assert server_env.server.store.wait_for_event(run_id, after, PATIENCE)
        after = runs.events(server_env.server.store, run_id, after, 1000)[-1].id
    return [event.as_dict() for event in reported]


def turns(server_env: ServerEnv, run_id: str) -> list[StoredTurn]:
    """Read the turns of a run."""
    return runs.turns(server_env.server.store, run_id)


@pytest.mark.parametrize("how", first_quick(["cancel", "kill", "wait"]))
def test_a_run_that_ends_while_an_action_is_asked_for_ends_its_turn(server_env: ServerEnv, how: str) -> None:
    """The turn gets an end, an outcome, an event and a metric, like any other."""
    server_env.server.close()
    received: list[tuple[str, str, float]] = []
    server_env.open(observe=lambda *reported: received.append(reported))
    run_id = create(server_env, "act", session_timeout_sec=1000)
    server_env.question(run_id)
    if how == "wait":
        move_deadlines(server_env, 1000)
    elif how == "kill":
        os.kill(pid_of(server_env, run_id), signal.SIGKILL)
    elif how == "cancel":
        server_env.server.commands.cancel(run_id)
    run = server_env.wait(run_id, State.CANCELED if how == "cancel" else State.FAILED)
    (turn,) = turns(server_env, run_id)
    assert turn.ended_at
    assert turn.seconds
    assert (turn.outcome, turn.failure) == ("error", run.error)
    assert until(server_env, run_id, "turn.ended") == [{"turn_index": 1, "outcome": "error"}]
    assert slots_are_free(server_env)
    assert [turn[:2] for turn in received] == [("codex", "error")]


def question_after(server_env: ServerEnv, run_id: str, before: StoredQuestion) -> StoredQuestion:
    """Wait for a question other than the given one."""
    after = 0
    while server_env.run(run_id).pending_interaction_id in (None, before.interaction_id):
        assert server_env.server.store.wait_for_event(run_id, after, PATIENCE)
        after = runs.events(server_env.server.store, run_id, after, 1000)[-1].id
    return server_env.question(run_id)


def test_auto_grants_by_policy(server_env: ServerEnv) -> None:
    """In mode auto, permission is granted without asking, in a sticky process too."""
    run = server_env.wait(create(server_env, f"act {DECIDED}\nfault: asks-anyway", mode="auto"), State.SUCCEEDED)
    assert run.final_data == {"decided": "done"}


@pytest.mark.parametrize("do", [f"say {ASK}", "hang"])
def test_cancel_ends_the_process(server_env: ServerEnv, do: str) -> None:
    """A sticky run can be canceled while it waits and while it runs; its slot is freed once its process is gone."""
    run_id = create(server_env, do)
    if do == "hang":
        server_env.cli_env.meet_word()
    else:
        server_env.question(run_id)
    process = psutil.Process(pid_of(server_env, run_id))
    server_env.server.commands.cancel(run_id)
    server_env.wait(run_id, State.CANCELED)
    assert slots_are_free(server_env)
    assert not process.is_running()


@pytest.fixture(name="alone")
def _alone(server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the engine have no transport."""
    find = server_env.server.engines.find

    def without_transport(name: str, cwd: Path | None = None) -> InstalledEngine:
        engine = find(name, cwd)
        return replace(
            engine, contract=replace(engine.contract, sticky=replace(engine.contract.sticky, transport="none"))
        )

    monkeypatch.setattr(server_env.server.engines, "find", without_transport)


@pytest.mark.usefixtures("alone")
def test_without_a_transport_no_run_that_needs_one_is_created(server_env: ServerEnv) -> None:
    """The reason is given before anything is created; a run that can do without a process is accepted."""
    with pytest.raises(ApiError) as refused:
        create(server_env, f"say {ASK}")
    assert refused.value.code == "PROFILE_UNAVAILABLE"
    assert "needs a sticky process (the run requested it)" in refused.value.detail
    assert "no transport" in refused.value.detail
    assert refused.value.hint == "leave out `interactive_profile`: the engine can resume its sessions"
    assert not runs.summaries(server_env.server.store)
    server_env.create(execution_mode="interactive")
    server_env.create(interactive_profile="sticky_process")


@pytest.mark.usefixtures("alone")
def test_without_a_transport_and_without_resume_no_interactive_run_is_created(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine that can neither resume its sessions nor keep a process has no interactive runs."""
    monkeypatch.setattr(profiles, "replaced", lambda _engine: "it was replaced")
    for asked in (None, "resumable", "sticky_process"):
        with pytest.raises(ApiError, match=r"PROFILE_UNAVAILABLE: .* \(use mode auto"):
            server_env.create(execution_mode="interactive", **({"interactive_profile": asked} if asked else {}))
    server_env.create()


@pytest.mark.usefixtures("alone")
def test_without_a_transport_a_run_that_turns_out_to_need_one_fails_at_once(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known to fail only when the turn begins fails before the engine is run."""
    monkeypatch.setattr(commands, "no_sticky_process", lambda _contract: "")
    error = server_env.failed(create(server_env, f"say {ASK}"))
    assert error.code == "INTERACTION_PROCESS_LOST"
    assert "no transport" in error.detail
    assert not server_env.cli_env.calls()


@pytest.mark.long
@pytest.mark.parametrize(
    "do,code",
    first_quick([(f"say {ASK}", "INTERACTION_PROCESS_LOST"), ("hang", "ORCHESTRATOR_RESTART_INTERRUPTED")]),
)
def test_a_restart_ends_what_was_kept(closed_server_env: ServerEnv, do: str, code: str) -> None:
    """The orphan is ended; a waiting run fails as having lost its process, a running one as interrupted."""
    server_env = closed_server_env
    put_engine(server_env)
    wait = "met()" if do == "hang" else "wait(run, 'waiting_user')"
    program = (
        f"run = create('do: ' + {do!r}, execution_mode='interactive', interactive_profile='sticky_process')\n"
        f"{wait}\n"
        "pid = process_of(run)\n"
        "(server.engines.find('codex').executable.parent / 'pid').write_text(str(pid))\ndie()"
    )
    kill_server(server_env, program)
    orphan = int((server_env.cli_env.path / "pid").read_text())
    with server_env.opened():
        assert not is_alive(orphan)
        (run,) = runs.summaries(server_env.server.store)
        assert server_env.failed(run.run_id).code == code


@pytest.mark.parametrize("waited", first_quick([False, True]))
@pytest.mark.parametrize("canceled", [False, True])
def test_an_end_of_the_server_interrupts_a_running_turn(
    closed_server_env: ServerEnv, *, waited: bool, canceled: bool
) -> None:
    """The engine isn't blamed, whichever turn it is; a pending cancel still wins."""
    put_engine(closed_server_env)
    with closed_server_env.opened() as server:
        run_id = create(closed_server_env, f"say {ASK}" if waited else "hang")
        if waited:
            closed_server_env.reply(run_id, closed_server_env.question(run_id), "do: hang")
        closed_server_env.cli_env.meet_word()
        if canceled:
            with server.store.writing() as connection:
                runs.change(connection, run_id, cancel_requested=1)
    with closed_server_env.opened():
        run = closed_server_env.run(run_id)
    if canceled:
        assert (run.state, run.error) == (State.CANCELED, None)
    else:
        assert (run.error and run.error.code) == "ORCHESTRATOR_RESTART_INTERRUPTED"


def test_a_server_that_ends_starts_no_process(closed_server_env: ServerEnv) -> None:
    """A run that was claimed too late is settled, too."""
    put_engine(closed_server_env)
    with closed_server_env.opened() as server:
        server.host.close()
        run_id = create(closed_server_env, "hang")
        assert closed_server_env.failed(run_id).code == "ORCHESTRATOR_RESTART_INTERRUPTED"
        assert slots_are_free(closed_server_env)


def test_options_that_only_a_headless_turn_takes_fail_as_ours(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a sticky process is needed because the engine can't resume, the error names turngate's own rejection."""
    unable = EngineResumeCapability(supported=False, probe_method="command", detail="it can't")
    profile = EngineInteractiveProfile("sticky_process", unable.detail, 100)
    monkeypatch.setattr(Profiles, "choose", lambda *_args, **_more: (profile, unable))
    run_id = server_env.create(f"do: say {ASK}", execution_mode="interactive", engine_options=["--cd", "."])
    error = server_env.failed(run_id)
    assert error.code == "ORCHESTRATOR_ERROR"
    assert "a sticky codex doesnt accept --cd" in error.detail.replace("'", "")
    assert slots_are_free(server_env)


def test_options_that_a_sticky_process_does_not_take_are_refused(server_env: ServerEnv) -> None:
    """They are rejected before anything is created, even though a headless turn would accept them."""
    with pytest.raises(ApiError, match="OPTION_REFUSED"):
        create(server_env, f"say {ASK}", engine_options=["--cd", "."])
