"""Tests that a reply is taken only if it can be sent, and that one that no process got is not lost."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from msgspec.structs import replace

from tests.reference import cli_env as d
from tests.reference.crash import kill_server
from tests.reference.server_env import ASK, ServerEnv, final
from turngate.argv.file_marks import check_file_marks
from turngate_reference.server.orchestrator import transitions
from turngate_reference.server.requests import ApiError, ContinueRequest
from turngate_reference.server.store import runs
from turngate_reference.server.store.events import ReplyReturnEvent
from turngate_reference.server.store.runs import Run, StoredQuestion, UnsentReply
from turngate_reference.states import State


@contextmanager
def moved_away(path: Path) -> Iterator[None]:
    """Rename a file or folder while the block runs."""
    aside = path.rename(path.with_name(f"{path.name}-aside"))
    try:
        yield
    finally:
        aside.rename(path)


@pytest.fixture(name="asked")
def _asked(closed_server_env: ServerEnv) -> Iterator[tuple[ServerEnv, str, StoredQuestion]]:
    """Provide a run that waits in a workspace of its caller."""
    (closed_server_env.cli_env.root / "projects" / "door").mkdir(parents=True)
    closed_server_env.keep_session()
    closed_server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(colour="red")))
    with closed_server_env.opened(workspace_root=closed_server_env.cli_env.root / "projects"):
        yield closed_server_env, *closed_server_env.ask(workspace="door")


MISSING = {
    "ENGINE_UNAVAILABLE": "path/codex",
    "WORKSPACE_UNAVAILABLE": "projects/door",
    "SESSION_STORE_UNAVAILABLE": "home/.codex",
}


@pytest.mark.parametrize("code", MISSING)
def test_what_can_come_back_refuses_the_reply(asked: tuple[ServerEnv, str, StoredQuestion], code: str) -> None:
    """The run keeps waiting, and takes the same reply, with the same key, once it is back."""
    server_env, run_id, question = asked
    before = server_env.run(run_id)
    with moved_away(server_env.cli_env.root / MISSING[code]), pytest.raises(ApiError) as refused:
        server_env.reply(run_id, question, key="k")
    assert refused.value.code == code
    assert server_env.run(run_id) == before
    server_env.reply(run_id, question, key="k")
    assert server_env.wait(run_id, State.SUCCEEDED).final_data == {"colour": "red"}
    assert len(server_env.cli_env.calls()) == 2


def test_a_linked_instruction_file_refuses_requests(asked: tuple[ServerEnv, str, StoredQuestion]) -> None:
    """A run, a reply and a continuation are refused before they are taken; the run keeps waiting."""
    server_env, run_id, question = asked
    projects = server_env.cli_env.root / "projects"
    (projects / "shed").mkdir()
    for link in (projects / "shed/AGENTS.md", projects / "door/AGENTS.md"):
        link.symlink_to(server_env.cli_env.root)
    before = server_env.run(run_id)
    leads_out = r"ENGINE_UNSAFE.*AGENTS\.md leads out of the workspace"
    with pytest.raises(ApiError, match=leads_out):
        server_env.create(workspace="shed")
    with pytest.raises(ApiError, match=leads_out):
        server_env.reply(run_id, question, key="k")
    assert server_env.run(run_id) == before
    server_env.server.commands.cancel(run_id)
    with pytest.raises(ApiError, match=leads_out):
        server_env.server.commands.continue_run(run_id, ContinueRequest("go on"), None)
    assert len(server_env.cli_env.calls()) == 1


def test_a_folder_that_can_not_be_read_refuses_the_reply(
    asked: tuple[ServerEnv, str, StoredQuestion], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A session that nobody can look for is not taken for one that is gone."""
    server_env, run_id, question = asked
    iterdir = Path.iterdir

    def unreadable(folder: Path) -> Iterator[Path]:
        if folder.name == "sessions":
            raise PermissionError(13, "Permission denied")
        return iterdir(folder)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "iterdir", unreadable)
        with pytest.raises(ApiError, match=r"SESSION_STORE_UNAVAILABLE.*can't be read"):
            server_env.reply(run_id, question)
    server_env.reply(run_id, question)
    server_env.wait(run_id, State.SUCCEEDED)


def test_a_session_that_is_gone_fails_the_run_which_keeps_the_reply(
    asked: tuple[ServerEnv, str, StoredQuestion],
) -> None:
    """No process starts; if the session comes back, the run can be continued with the reply."""
    server_env, run_id, question = asked
    with moved_away(server_env.keep_session()):
        server_env.reply(run_id, question, "sky blue")
        error = server_env.failed(run_id)
    assert (error.code, "does not hold" in error.detail) == ("SESSION_RESUME_FAILED", True)
    assert len(server_env.cli_env.calls()) == 1
    unsent = runs.unsent_reply(server_env.server.store, run_id)
    assert unsent == UnsentReply("sky blue", error.code, error.detail)
    assert server_env.server.commands.no_continue(server_env.run(run_id)) is None


def test_a_reply_longer_than_the_engine_takes_is_refused(asked: tuple[ServerEnv, str, StoredQuestion]) -> None:
    """With the texts that turngate adds, it has more characters than Codex takes; nothing is sent."""
    server_env, run_id, question = asked
    with pytest.raises(ApiError, match=r"PROMPT_REFUSED.*characters exceed the limit of 1048576 for stdin"):
        server_env.reply(run_id, question, "x" * 2**20)
    assert server_env.run(run_id).state is State.WAITING_USER
    server_env.reply(run_id, question, "é" * 10**6)
    server_env.wait(run_id, State.SUCCEEDED)


@pytest.mark.parametrize("workspace", [None, "shed"])
def test_a_prompt_longer_than_the_engine_takes_is_refused(
    asked: tuple[ServerEnv, str, StoredQuestion], workspace: str | None
) -> None:
    """The limit holds for the prompt with all that turngate adds: what is taken is never refused later."""
    server_env, _, _ = asked
    (server_env.cli_env.root / "projects" / "shed").mkdir()
    more = {"workspace": workspace} if workspace else {}
    with pytest.raises(ApiError, match="PROMPT_REFUSED") as refused:
        server_env.create("x" * 2**20, **more)
    length = re.search(r"(\d+) characters", refused.value.detail)
    assert length
    most = 2**21 - int(length[1])
    run_id = server_env.create("x" * most, **more)
    server_env.wait(run_id, State.SUCCEEDED)
    assert len(server_env.cli_env.calls()[-1]["stdin"]) == 2**20
    with pytest.raises(ApiError, match="PROMPT_REFUSED"):
        server_env.create("x" * (most + 1), **more)


@contextmanager
def held_queue(server_env: ServerEnv) -> Iterator[None]:
    """Start no queued run while the block runs."""
    with mock.patch.object(transitions, "claim", return_value=None):
        yield
    server_env.server.owner.kick()


def returned(server_env: ServerEnv, run_id: str, question: StoredQuestion) -> UnsentReply:
    """Wait until a reply is returned; check that its question is open again, and return what the run keeps of it."""
    store = server_env.server.store
    server_env.wait(run_id, State.WAITING_USER)
    unsent = runs.unsent_reply(store, run_id)
    assert runs.question(store, question.interaction_id) == replace(question, unsent=unsent)
    assert server_env.run(run_id).pending_interaction_id == question.interaction_id
    (event,) = [event.data for event in runs.events(store, run_id) if isinstance(event.data, ReplyReturnEvent)]
    assert unsent == UnsentReply("sky blue", event.code, event.detail)
    assert [turn.turn_index for turn in runs.turns(store, run_id)] == [1]
    record = server_env.cli_env.record(server_env.run(run_id).handle)
    assert (record["state"], record["turns"]) == ("waiting_user", 1)
    assert len(server_env.cli_env.calls()) == 1
    return unsent


@pytest.mark.parametrize("code", MISSING)
def test_a_reply_that_no_process_got_is_returned(asked: tuple[ServerEnv, str, StoredQuestion], code: str) -> None:
    """What the turn needs is gone after the 202; the run waits with the same question, and the key is free again."""
    server_env, run_id, question = asked
    place = server_env.cli_env.root / MISSING[code]
    with held_queue(server_env):
        server_env.reply(run_id, question, "sky blue", key="k")
        aside = place.rename(place.with_name("aside"))
    server_env.wait_for_state(run_id, "waiting_user", times=2)
    assert returned(server_env, run_id, question).code == code
    assert server_env.states(run_id)[-4:] == ["queued", "running", "queued", "waiting_user"]
    aside.rename(place)
    server_env.reply(run_id, question, "green", key="k")
    assert server_env.wait(run_id, State.SUCCEEDED).turn_index == 2
    assert runs.unsent_reply(server_env.server.store, run_id) is None
    _, second = server_env.cli_env.calls()
    assert "green" in second["stdin"]
    assert "sky blue" not in second["stdin"]


def test_an_engine_that_can_not_be_started_returns_the_reply(
    asked: tuple[ServerEnv, str, StoredQuestion],
) -> None:
    """It is on PATH, but nothing can run it."""
    server_env, run_id, question = asked
    (server_env.cli_env.path / "codex").write_text("#!/no/such/interpreter\n")
    server_env.reply(run_id, question, "sky blue")
    server_env.wait_for_state(run_id, "waiting_user", times=2)
    unsent = returned(server_env, run_id, question)
    assert (unsent.code, "could not be started" in unsent.detail) == ("ENGINE_UNAVAILABLE", True)


def test_a_reply_is_sent_once_its_process_has_started(asked: tuple[ServerEnv, str, StoredQuestion]) -> None:
    """An engine that fails at once has got the reply, so the run fails and offers it to nobody."""
    server_env, run_id, question = asked
    server_env.cli_env.engine("codex", [["exit", 1]])
    server_env.reply(run_id, question, key="k")
    assert server_env.failed(run_id).code == "SESSION_RESUME_FAILED"
    assert runs.unsent_reply(server_env.server.store, run_id) is None


def test_a_message_that_no_process_got_is_returned(asked: tuple[ServerEnv, str, StoredQuestion]) -> None:
    """After `continue`, the run waits with the question how it should go on."""
    server_env, run_id, question = asked
    server_env.reply(run_id, question)
    server_env.wait(run_id, State.SUCCEEDED)
    executable = server_env.cli_env.path / "codex"
    with held_queue(server_env):
        server_env.go_on(run_id, "once more", key="k")
        aside = executable.rename(executable.with_suffix(".aside"))
    server_env.wait_for_state(run_id, "waiting_user", times=2)
    asked_now = server_env.question(run_id)
    assert asked_now.question.prompt == "The run has succeeded. How should it go on?"
    aside.rename(executable)
    server_env.reply(run_id, asked_now, "once more", key="k")
    server_env.wait(run_id, State.SUCCEEDED)
    assert "once more" in server_env.cli_env.calls()[-1]["stdin"]


@pytest.mark.long
@pytest.mark.parametrize("after", ["taking", "claiming"])
def test_a_server_that_dies_before_the_start_returns_or_sends_the_reply_once(
    closed_server_env: ServerEnv, after: str
) -> None:
    """The next server starts a queued turn, and returns the reply of a claimed one that no process got."""
    server_env = closed_server_env
    server_env.keep_session()
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(colour="red")))
    place = {"taking": "transitions.claim", "claiming": "transitions.mark"}[after]
    kill_server(
        server_env,
        "from turngate_reference.server.orchestrator import transitions\n"
        "run_id = create('a', execution_mode='interactive')\nwait(run_id, 'waiting_user')\n"
        f"{place} = lambda *_: die()\n"
        "asked = runs.find(server.store, run_id).pending_interaction_id\n"
        "replied(server, run_id, {'interaction_id': asked, 'response': 'sky blue'}, 'k')\n"
        "import time; time.sleep(30)",
    )
    with server_env.opened():
        (run,) = runs.summaries(server_env.server.store)
        if after == "claiming":
            question = server_env.question(run.run_id)
            assert returned(server_env, run.run_id, question).code == "ORCHESTRATOR_RESTART_INTERRUPTED"
            server_env.reply(run.run_id, question, "green", key="k")
        server_env.wait(run.run_id, State.SUCCEEDED)
    _, second = server_env.cli_env.calls()
    assert ("green" if after == "claiming" else "sky blue") in second["stdin"]


@pytest.mark.long
def test_a_server_that_dies_after_the_start_sends_nothing_twice(closed_server_env: ServerEnv) -> None:
    """The process may have got the reply, so the run fails, and the reply is offered to nobody."""
    server_env = closed_server_env
    server_env.keep_session()
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex("a", more=[["meet"]]))
    kill_server(
        server_env,
        "run_id = create('a', execution_mode='interactive')\nwait(run_id, 'waiting_user')\n"
        "asked = runs.find(server.store, run_id).pending_interaction_id\n"
        "replied(server, run_id, {'interaction_id': asked, 'response': 'blue'})\nmet()\ndie()",
    )
    with server_env.opened():
        (run,) = runs.summaries(server_env.server.store)
        assert server_env.failed(run.run_id).code == "ORCHESTRATOR_RESTART_INTERRUPTED"
        assert runs.unsent_reply(server_env.server.store, run.run_id) is None


def test_a_cancel_comes_before_the_return(asked: tuple[ServerEnv, str, StoredQuestion]) -> None:
    """A run whose reply can't be sent is canceled all the same."""
    server_env, run_id, question = asked
    with held_queue(server_env):
        server_env.reply(run_id, question)
        server_env.server.commands.cancel(run_id)
    assert server_env.wait(run_id, State.CANCELED).pending_interaction_id is None


def test_a_reply_is_checked_before_the_transaction(
    asked: tuple[ServerEnv, str, StoredQuestion], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others write meanwhile, since the check of a long reply reads files."""
    server_env, run_id, question = asked

    def checked(*of: Any) -> None:
        with server_env.server.store.writing():
            check_file_marks(*of)

    monkeypatch.setattr("turngate_reference.server.orchestrator.commands.check_file_marks", checked)
    server_env.reply(run_id, question)
    server_env.wait(run_id, State.SUCCEEDED)


def test_a_question_that_was_opened_again_during_the_check_takes_no_unchecked_reply(
    asked: tuple[ServerEnv, str, StoredQuestion], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The caller is told to send the reply again."""
    server_env, run_id, question = asked
    find = runs.find

    def late(*of: Any) -> Run | None:
        run = find(*of)
        return run and replace(run, pending_interaction_id=None)

    with monkeypatch.context() as patch:
        patch.setattr(runs, "find", late)
        with pytest.raises(ApiError, match="opened again") as refused:
            server_env.reply(run_id, question)
    assert (refused.value.code, refused.value.hint) == ("NOT_WAITING", "send the reply again")
    server_env.reply(run_id, question)
    server_env.wait(run_id, State.SUCCEEDED)
