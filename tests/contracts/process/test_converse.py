"""Conversations with a simulated engine: the loop of turns, questions and answers."""

import asyncio
import os
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

import turngate
from turngate.process import converse
from turngate_probes.simulate.simulated_process import install

CODEX = turngate.load_contract("codex", "0.169.0")


@pytest.fixture(name="setup")
def _setup(tmp_path: Path) -> turngate.ConversationSetup:
    """A setup with a simulated codex, in a folder and a home of its own."""
    (tmp_path / "work").mkdir()
    env = {"PATH": os.defpath, "HOME": str(tmp_path)}
    return turngate.ConversationSetup(CODEX, install(CODEX, tmp_path / "bin"), tmp_path / "work", env=env, timeout=60)


@pytest.mark.long
def test_the_session_gets_each_answer_until_the_agent_is_done(setup: turngate.ConversationSetup) -> None:
    """Each turn is passed on before its question is answered, and all are of one session."""
    events: list[str] = []

    def answer(question: turngate.Interaction) -> str:
        events.append(question.prompt)
        return "red"

    ended = turngate.converse(setup, "Paint", answer, on_turn=lambda turn: events.append(turn.reading.result.outcome))
    assert ended.result.final_data == {"colour": "red"}
    assert events == ["ask_user", "Which colour?", "final"]
    assert {turn.reading.session for turn in ended.turns} == {ended.handle}


def test_a_handle_continues_its_session(setup: turngate.ConversationSetup) -> None:
    """With a stored handle, the task is the reply of the same session."""
    stored: list[turngate.EngineSessionHandle] = []

    def stored_then_stopped(turn: turngate.TurnRun) -> None:
        assert turn.reading.session
        stored.append(turn.reading.session)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        turngate.converse(setup, "Paint", lambda _: pytest.fail("stopped before"), on_turn=stored_then_stopped)
    ended = turngate.converse(setup, "blue", lambda _: pytest.fail("nothing is open"), handle=stored[0])
    assert (ended.result.final_data, ended.handle) == ({"colour": "blue"}, stored[0])


@pytest.mark.long
def test_a_setting_that_lets_the_engine_act_unasked_starts_no_turn(
    setup: turngate.ConversationSetup, tmp_path: Path
) -> None:
    """The settings are those of the engine's environment, not of this process."""
    (tmp_path / ".codex").mkdir()
    (tmp_path / ".codex/config.toml").write_text('[mcp_servers.files.tools.write]\napproval_mode = "approve"\n')
    with pytest.raises(turngate.RefusedError, match=r"approved-mcp-tools"):
        turngate.converse(setup, "Paint", lambda _: "red")
    allowed = replace(setup, trust=turngate.Trust(unsafe_engines=frozenset({"codex"})))
    assert turngate.converse(allowed, "Paint", lambda _: "red").result.final_data == {"colour": "red"}


def test_an_engine_that_fails_ends_the_conversation_with_its_reason(setup: turngate.ConversationSetup) -> None:
    """A failed turn is the result, and nobody is asked."""
    unknown = turngate.EngineSessionHandle("codex", "session_id", "00000000-0000-7000-8000-000000000000", 1)
    ended = turngate.converse(setup, "blue", lambda _: pytest.fail("nothing is open"), handle=unknown)
    assert ended.result.outcome is turngate.Outcome.ERROR
    assert (ended.result.failure_reason or "").startswith("SESSION_RESUME_FAILED")


@pytest.mark.long
def test_the_asynchronous_conversation_is_the_same(setup: turngate.ConversationSetup) -> None:
    """`converse_async` awaits each answer, and passes on each turn."""

    async def answer(question: turngate.Interaction) -> str:
        await asyncio.sleep(0)
        return question.options[0]

    outcomes: list[str] = []
    asked = turngate.converse_async(
        setup, "Paint", answer, on_turn=lambda turn: outcomes.append(turn.reading.result.outcome)
    )
    assert asyncio.run(asked).result.final_data == {"colour": "red"}
    assert outcomes == ["ask_user", "final"]


def test_the_event_loop_goes_on_while_a_turn_is_prepared(
    setup: turngate.ConversationSetup, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of a large workspace takes seconds."""

    async def answer(_question: turngate.Interaction) -> str:
        return pytest.fail("no turn was started")

    async def asked() -> None:
        loop, goes_on = asyncio.get_running_loop(), threading.Event()

        def prepare(*_: object, **__: object) -> None:
            loop.call_soon_threadsafe(goes_on.set)
            assert goes_on.wait(10)
            raise turngate.UsageError("prepared")

        monkeypatch.setattr(converse, "process_request", prepare)
        with pytest.raises(turngate.UsageError, match="prepared"):
            await turngate.converse_async(setup, "Paint", answer)

    asyncio.run(asked())
