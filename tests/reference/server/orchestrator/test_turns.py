"""Tests of the life of a run: ask, wait, reply, resume in a new process, end."""

import json
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec import UNSET

from tests.fakes.executables import headless
from tests.patience import PATIENCE
from tests.reference import cli_env as d
from tests.reference.locked_database import locked_database
from tests.reference.server.sticky_env import slots_are_free
from tests.reference.server_env import ASK, ServerEnv, final
from tests.tables import each
from turngate import mode_patch
from turngate.argv.auto_flags import auto_flags_in
from turngate.argv.file_slot import artifacts_in, as_in_contract
from turngate.decoding import convert
from turngate.model import Mode
from turngate.turn.read import NO_ANSWER
from turngate_reference.server.orchestrator import turns
from turngate_reference.server.orchestrator.headless import artifact_patch
from turngate_reference.server.orchestrator.run_files import prepare_workspace
from turngate_reference.server.requests import ApiError
from turngate_reference.server.store import database, files, runs
from turngate_reference.server.store.events import AskedQuestion
from turngate_reference.server.store.runs import Run
from turngate_reference.states import State


def test_a_question_waits_without_process_or_slot(server_env: ServerEnv) -> None:
    """The state `waiting_user` is stored with all that a resume needs; no process or slot is held."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, question = server_env.ask()
    run = server_env.run(run_id)
    assert question.question == convert(json.loads(ASK)["interaction"], AskedQuestion)
    assert run.profile
    assert run.profile.kind == "resumable"
    assert run.session
    assert run.session.handle_value == d.SESSION
    assert (run.turn_index, run.process, run.wait_deadline_at) == (1, None, None)
    assert slots_are_free(server_env)
    assert not [child for child in psutil.Process().children() if "--json" in child.cmdline()]


def test_a_reply_resumes_the_session_in_a_new_process(server_env: ServerEnv) -> None:
    """The second turn resumes the same session with the same options and directory, and passes the reply."""
    # without a shell, which would set PWD
    headless(server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(colour="red"))))
    run_id, question = server_env.ask(model="o9", engine_options=["--add-dir", "a"])
    server_env.reply(run_id, question, "--yolo red")
    run = server_env.wait(run_id, State.SUCCEEDED)
    first, second = server_env.cli_env.calls()
    assert run.final_data == {"colour": "red"}
    assert (run.turn_index, run.pending_interaction_id) == (2, None)
    assert second["argv"] == [*first["argv"][:-1], "resume", d.SESSION, "-"]
    assert first["cwd"] == second["cwd"] == second["pwd"] == str(run.cwd)
    assert "--yolo red" in second["stdin"]
    contract = server_env.server.engines.find("codex").contract
    assert not auto_flags_in(as_in_contract(tuple(second["argv"]), contract), contract)
    assert server_env.states(run_id) == ["queued", "running", "waiting_user", "queued", "running", "succeeded"]


def test_an_interactive_turn_may_write_its_artifacts_alone(server_env: ServerEnv) -> None:
    """First turn and resume get the contract's options with the run's directory, and the prompt names it."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    run_id, question = server_env.ask()
    server_env.reply(run_id, question)
    run = server_env.wait(run_id, State.SUCCEEDED)
    contract = server_env.server.engines.find("codex").contract
    assert [artifacts_in(call["argv"], contract) for call in server_env.cli_env.calls()] == [str(run.artifacts)] * 2
    assert all(artifact_patch(run.artifacts) in call["stdin"] for call in server_env.cli_env.calls())
    assert run.artifacts.is_dir()
    assert run.profile
    assert run.profile.no_artifacts is UNSET


@pytest.mark.parametrize(
    "more, why",
    [
        ({"engine_options": ["--sandbox", "read-only"]}, "the option --sandbox rules it out"),
        ({"engine_options": ["--config", "sandbox_mode=read-only"]}, "the option sandbox_mode rules it out"),
        ({"workspace": "it's"}, "has characters that an engine may read"),
    ],
)
def test_a_run_that_can_write_no_artifacts_says_so(
    closed_server_env: ServerEnv, tmp_path: Path, more: dict[str, Any], why: str
) -> None:
    """Its prompts don't ask for any, and its engine is passed what mode interactive always passes."""
    (tmp_path / "root" / "it's").mkdir(parents=True)
    closed_server_env.keep_session()
    closed_server_env.cli_env.engine("codex", d.codex(ASK))
    with closed_server_env.opened(workspace_root=tmp_path / "root"):
        run_id, _ = closed_server_env.ask(**more)
        (call,) = closed_server_env.cli_env.calls()
        profile = closed_server_env.run(run_id).profile
    assert profile
    assert why in str(profile.no_artifacts)
    assert "is a result of your work" not in call["stdin"]
    assert "--sandbox" in call["argv"]


def test_auto_knows_nothing_of_interaction(server_env: ServerEnv) -> None:
    """A run in mode auto gets auto-approve flags and no profile, and ends with the agent's answer."""
    server_env.cli_env.engine("codex", d.codex("done"))
    run = server_env.wait(server_env.create(), State.SUCCEEDED)
    (call,) = server_env.cli_env.calls()
    assert run.final_data == {"text": "done"}
    assert (run.profile, run.capability, run.pending_interaction_id) == (None, None, None)
    assert auto_flags_in(call["argv"], server_env.server.engines.find("codex").contract)
    assert "do not ask the user" in call["stdin"]


@each("text", ["", "\n "])
@each("mode", Mode)
def test_a_blank_answer_fails_the_run_and_keeps_its_files(server_env: ServerEnv, mode: Mode, text: str) -> None:
    """A turn that ends well without an answer fails. The error says that files may have changed; the run has them."""
    server_env.cli_env.engine("codex", d.codex(text, more=[["write", "done.txt", "hi"]]))
    run_id = server_env.create(execution_mode=mode)
    error = server_env.failed(run_id)
    assert (error.code, error.detail) == ("ENGINE_FAILED", NO_ANSWER)
    assert [file.path for file in files.changed(server_env.server.store, run_id)] == ["done.txt"]


def test_a_blank_answer_to_a_reply_fails_the_run(server_env: ServerEnv) -> None:
    """The session is intact, so the code isn't that of a session that can't be resumed."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex("\n "))
    run_id, question = server_env.ask()
    server_env.reply(run_id, question)
    error = server_env.failed(run_id)
    assert (error.code, error.detail) == ("ENGINE_FAILED", NO_ANSWER)


@each("text", [ASK[:-1], f"{ASK[:-1]}, }}", f"Done: {final(colour='red')[:-1]}"])
@each("mode", Mode)
def test_an_envelope_that_can_not_be_read_fails_the_run(server_env: ServerEnv, mode: Mode, text: str) -> None:
    """A question or a result that is cut off or isn't JSON is never taken for a result in words."""
    server_env.cli_env.engine("codex", d.codex(text))
    error = server_env.failed(server_env.create(execution_mode=mode))
    assert error.code == "ENVELOPE_INVALID"
    assert "the envelope" in error.detail


def test_an_engine_is_allowed_to_ask_whatever_the_caller_wrote(server_env: ServerEnv) -> None:
    """Each interactive turn's prompt ends with the permission to ask, even after a skill that forbids asking."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(colour="red")))
    ban = "Never ask the user a question."
    run_id, question = server_env.ask(skill=ban, output_schema={"description": ban})
    server_env.reply(run_id, question)
    server_env.wait(run_id, State.SUCCEEDED)
    allowed = mode_patch(Mode.INTERACTIVE, {"description": ban})
    first, second = (call["stdin"] for call in server_env.cli_env.calls())
    assert first.startswith(f"{ban}\n\npaint it\n\n")
    for received in (first, second):
        assert received.endswith(f"\n\n{artifact_patch(server_env.run(run_id).artifacts)}\n\n{allowed}")
        assert ban not in received[received.rindex("You may ask the user") :]


def test_auto_without_a_session_id_is_no_error(server_env: ServerEnv) -> None:
    """In mode auto, a missing session id is recorded as null."""
    server_env.cli_env.engine("codex", d.codex("done", session=None))
    assert server_env.wait(server_env.create(), State.SUCCEEDED).session is None


def test_auto_never_waits(server_env: ServerEnv) -> None:
    """An agent that asks in mode auto fails the run with its own error code."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id = server_env.create()
    assert server_env.failed(run_id).code == "ASK_USER_IN_AUTO"
    assert "waiting_user" not in server_env.states(run_id)


@each(
    "text",
    [
        '{"outcome": "ask_user"}',
        '{"outcome": "ask_user", "interaction": {"kind": "guess"}}',
        "which?",
        ASK + ASK[:-1] + ', "x": 1}',
        ASK.replace('"red"', '"red", ' * 100_000 + '"red"'),
        ASK.replace("red", "r" * 1001),
        f"{ASK[:-1]}{' ' * 5 * 2**20}}}",
    ],
    shown=lambda text: text[:40],
)
def test_a_malformed_question_never_waits(server_env: ServerEnv, text: str) -> None:
    """An invalid question fails the run."""
    server_env.cli_env.engine("codex", d.codex(text))
    run_id = server_env.create(execution_mode="interactive")
    assert server_env.failed(run_id).code == "ENVELOPE_INVALID"
    assert "waiting_user" not in server_env.states(run_id)


@each(
    "play",
    [
        d.codex(ASK, session=None),
        d.codex(final(x=1), session=None),
        d.codex(ASK, session=None)[:-1],
        [["stdout", '{"id": "0", "msg": {"type": "agent_message", "message": "hi"}}\n']],
        [["exit", 0]],
    ],
)
def test_an_interactive_turn_without_session_id_fails(server_env: ServerEnv, play: d.Play) -> None:
    """Without a session id, nobody could reply, so the run fails at once, whatever the turn's result."""
    server_env.cli_env.engine("codex", play)
    run_id = server_env.create(execution_mode="interactive")
    error = server_env.failed(run_id)
    assert error.code == "SESSION_RESUME_FAILED"
    assert "no session id" in error.detail
    assert "waiting_user" not in server_env.states(run_id)


def test_final_data_is_checked(server_env: ServerEnv) -> None:
    """Final data that violates its schema fails the run, and the error names the place."""
    server_env.cli_env.engine("codex", d.codex(final(colour=7)))
    schema = {"properties": {"colour": {"type": "string"}}}
    error = server_env.failed(server_env.create(output_schema=schema))
    assert error.code == "FINAL_DATA_INVALID"
    assert "$.colour" in error.detail


def test_a_megabyte_of_prompt_arrives(server_env: ServerEnv) -> None:
    """A long prompt is passed on standard input."""
    server_env.cli_env.engine("codex", d.codex("ok"))
    prompt = "x" * 10**6
    server_env.wait(server_env.create(prompt), State.SUCCEEDED)
    assert server_env.cli_env.calls()[0]["stdin"].startswith(prompt)


def test_the_record_lies_where_those_of_the_terminal_do(server_env: ServerEnv) -> None:
    """The record exists from creation on and is updated after every attempt; the run directory has no copy."""
    server_env.cli_env.engine("codex", d.codex(ASK, more=[["meet"]]), [["exit", 1]])
    run_id = server_env.create(execution_mode="interactive")
    run = server_env.run(run_id)
    created = record(server_env, run_id)
    assert (created["state"], created["turns"], created["served"]) == ("queued", 0, True)
    server_env.cli_env.meet()
    server_env.cli_env.release()
    question = server_env.question(run_id)
    first = record(server_env, run_id)
    session = {"field": "thread_id", "value": d.SESSION, "seen": True}
    assert (first["state"], first["session"]) == ("waiting_user", session)
    assert first["launch"]["locations"] == server_env.run(run_id).locations
    server_env.reply(run_id, question)
    server_env.failed(run_id)
    second = record(server_env, run_id)
    assert (second["state"], second["turns"], second["session"]) == ("failed", 2, first["session"])
    assert not (run.run_directory / "handle.json").exists()


def test_the_record_is_written_where_no_engine_ran(server_env: ServerEnv) -> None:
    """A record is written even if the engine could not be started or a resume was rejected before that."""
    (server_env.cli_env.path / "codex").write_text("#!/no/such/interpreter\n")
    (server_env.cli_env.path / "codex").chmod(0o755)
    run_id = server_env.create()
    error = server_env.failed(run_id)
    assert (error.code, "could not be started" in error.detail) == ("ENGINE_FAILED", True)
    assert record(server_env, run_id)["state"] == "failed"
    (server_env.cli_env.path / "codex").unlink()
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, question = server_env.ask()
    server_env.keep_session().unlink()
    server_env.reply(run_id, question)
    assert server_env.failed(run_id).code == "SESSION_RESUME_FAILED"
    kept = record(server_env, run_id)
    assert (kept["state"], kept["turns"], kept["session"]["value"]) == ("failed", 2, d.SESSION)


def record(server_env: ServerEnv, run_id: str) -> dict[str, Any]:
    """Read the handle record of a run."""
    return server_env.cli_env.record(server_env.run(run_id).handle)


def test_turns_tell_what_happened(server_env: ServerEnv) -> None:
    """Each turn has its argv without the prompt, its exit code and its outcome."""
    server_env.cli_env.engine("codex", d.codex(f"```json\n{ASK}\n```"), d.codex(final(x=1)))
    run_id, question = server_env.ask()
    server_env.reply(run_id, question)
    server_env.wait(run_id, State.SUCCEEDED)
    first, second = runs.turns(server_env.server.store, run_id)
    assert (first.outcome, first.repair_level, first.exit_code) == ("ask_user", "fence_stripped", 0)
    assert (second.outcome, second.repair_level) == ("final", "none")
    assert first.argv
    assert "exec" in first.argv


@each("flag", [["--yolo"], ["-s=workspace-write"], ["--sandbox", "workspace-write"], ["-c", "approval_policy=never"]])
def test_interactive_refuses_auto_flags(server_env: ServerEnv, flag: list[str]) -> None:
    """An auto-approve flag in any spelling is rejected by name before anything is created."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    with pytest.raises(ApiError) as refused:
        server_env.create(execution_mode="interactive", engine_options=flag)
    assert refused.value.code == "AUTO_FLAG_REFUSED"
    assert refused.value.members["flag"].split()[0] == flag[0]
    assert not server_env.cli_env.calls()


@pytest.mark.long
def test_a_turn_waits_for_a_locked_database_before_its_engine_starts(
    server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start of the turn is saved once the database is unlocked, and only then does the engine run."""
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.1)
    server_env.cli_env.engine("codex", d.codex("done"))
    met, is_locked = threading.Event(), threading.Event()

    def prepare_when_locked(run: Run) -> str | None:
        met.set()
        assert is_locked.wait(PATIENCE)
        return prepare_workspace(run)

    monkeypatch.setattr(turns, "prepare_workspace", prepare_when_locked)
    run_id = server_env.create()
    assert met.wait(PATIENCE)
    with locked_database(server_env.settings.data.database):
        is_locked.set()
        time.sleep(0.5)
        assert server_env.run(run_id).state is State.RUNNING
        assert server_env.cli_env.calls() == []
    server_env.wait(run_id, State.SUCCEEDED)


@each(
    "options",
    [
        ["-c", 'mcp_servers.x.command="touch"'],
        ["-c", 'mcp_servers={x={command="touch"}}'],
        ["--config=notify=['touch']"],
        ['-cnotify=["touch"]'],
        ["-c", 'model_provider="other"'],
        ["-c", 'model_providers.x.base_url="http://a"'],
        ["-c", "shell_environment_policy.inherit=all"],
        ["--output-last-message=/any/path"],
        ["--output-last-message", "here"],
        ["--cd", "/"],
        ["--add-dir=/"],
        ["--output-schema", "/etc/passwd"],
        ["--image", "x"],
        ["--oss"],
        ["--"],
        ["--no-color"],
    ],
)
def test_interactive_refuses_what_is_not_allowed(server_env: ServerEnv, options: list[str]) -> None:
    """The error names the option and lists the allowed ones, and nothing is created."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    with pytest.raises(ApiError) as refused:
        server_env.create(execution_mode="interactive", engine_options=options)
    assert refused.value.code == "OPTION_REFUSED"
    assert refused.value.members["option"].split("=")[0].split()[0] == options[0].split("=")[0]
    assert "--sandbox, -s read-only" in refused.value.members["allowed"]
    assert server_env.cli_env.calls() == []


def test_a_path_that_leads_out_by_now_refuses_the_reply(server_env: ServerEnv) -> None:
    """The path is checked before each turn: a directory that was replaced by a link is rejected, and the run waits."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(colour="red")))
    run_id, question = server_env.ask(engine_options=["--add-dir", "a"])
    (server_env.run(run_id).cwd / "a").symlink_to("/")
    with pytest.raises(ApiError, match="OPTION_REFUSED: '--add-dir a' points outside the workspace"):
        server_env.reply(run_id, question, "red")
    assert server_env.run(run_id).state is State.WAITING_USER
    assert len(server_env.cli_env.calls()) == 1
