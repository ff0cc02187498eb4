"""Scenarios that a real CLI can play."""

from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conform.orchestrators.catalogue import CORRECT
from turngate import Stop, load_contract
from turngate_probes.conform.calls import AskedModel, requests
from turngate_probes.conform.catalogue import scenarios
from turngate_probes.conform.judge import breaches
from turngate_probes.conform.plan import ConformPlan, Conversation
from turngate_probes.conform.real import TOGETHER, obstacle, rules, staged
from turngate_probes.conform.run import play
from turngate_probes.conform.scenario_model import QUESTION
from turngate_probes.simulate.backend import URL_VARIABLE, ModelRequest, ask
from turngate_probes.simulate.faults import Play
from turngate_probes.simulate.simulated_process import install
from turngate_probes.stub_model import Text
from turngate_probes.stub_model.protocol import ModelPrompt, ReplyRules

CODEX = load_contract("codex", "0.169.0")
TALK = Conversation("a", ("first", "second"), "amber")


def test_what_a_model_can_cause_is_played() -> None:
    """The rest needs a CLI that misbehaves."""
    expected = {"two-turns", "two-conversations", "failing-backend", "hang-before-answer", "reply-is-a-flag"}
    playable = {one.id for one in scenarios().values() if obstacle(one) is None}
    assert expected <= playable
    assert playable & {"fresh-session", "crash", "launcher", "no-answer", "upgrade", "hang-during-answer"} == set()


def test_the_backend_answers_by_what_was_said(tmp_path: Path) -> None:
    """The answer needs both prompts, so a fresh session doesn't get it."""
    plan = ConformPlan(str(tmp_path), "codex", "0.169.0", (TALK,), (Play(turn=2, says="unicode"),))
    with staged(plan, CODEX, tmp_path / "codex") as complete:
        assert complete.real == str(tmp_path / "codex")
        homes = {env["HOME"] for env in (complete.real_env, complete.elsewhere)}
        assert len([home for home in homes if home.startswith(str(tmp_path))]) == 2
        assert all(Path(home, ".codex/config.toml").is_file() for home in homes)
        assert "PATH" not in complete.real_env
    script = ReplyRules(tuple(rules(plan, CODEX)))

    def said(*texts: str) -> str:
        reply = script.choose({"input": list(texts)}, ModelPrompt((), (), after_tool_result=False))
        assert isinstance(reply, Text)
        return reply.text

    assert QUESTION in said("first")
    assert "amber" in said("first", "second")
    assert said("second") == "ok"


def test_what_the_model_is_asked_is_noted(tmp_path: Path) -> None:
    """Not what an engine asks beside a turn, without tools."""
    with staged(ConformPlan(str(tmp_path), "codex", "0.169.0", (TALK,)), CODEX, tmp_path / "codex") as complete:
        for text, tools in (("first", ["shell"]), ("title", []), ("second", ["shell"])):
            ask(complete.real_env[URL_VARIABLE], ModelRequest("m", [{"role": "user", "content": text}], tools))
    assert requests(tmp_path) == (AskedModel("m", ("first",)), AskedModel("m", ("second",)))


def test_two_conversations_meet_in_the_model(tmp_path: Path) -> None:
    """The answer to one waits until the other has asked as much."""
    talks = TALK, Conversation("b", ("prompt", "reply"), "beryl")
    plan = ConformPlan(str(tmp_path), "codex", "0.169.0", talks, (Play(together=True),))
    with staged(plan, CODEX, tmp_path / "codex") as complete, ThreadPoolExecutor() as pool:

        def said(text: str) -> "Future[object]":
            asked = ModelRequest("m", [{"role": "user", "content": text}], ["shell"])
            return pool.submit(ask, complete.real_env[URL_VARIABLE], asked)

        first = said("first")
        with pytest.raises(TimeoutError):
            first.result(timeout=0.5)
        other = said("prompt")
        assert QUESTION in str(first.result(timeout=TOGETHER / 2))
        assert QUESTION in str(other.result(timeout=TOGETHER / 2))


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize("name", ["two-turns", "failing-backend"])
def test_a_cli_runs_in_place_of_the_simulated_engine(tmp_path: Path, name: str) -> None:
    """Its calls are recorded like simulated ones; the CLI here is a simulated one that asks the stub model."""
    cli = install(CODEX, tmp_path / "bin")
    command = ("python3", str(CORRECT["python"]))
    seen = play(scenarios()[name], CODEX, command, tmp_path / "run", Stop(), {"PATH": "/usr/bin:/bin"}, cli)
    assert breaches(seen) == []
    first, second = seen.calls
    assert first.handle is not None
    assert (second.started.resumed, first.stdin_closed, second.stdin_closed) == (first.handle, True, True)
    prompts = seen.ran[0].conversation.prompts
    assert [call.text for call in seen.calls] == list(prompts)
    if name == "two-turns":
        assert [one.user_texts for one in requests(tmp_path / "run")] == [prompts[:1], prompts]
