"""Tests of what callers may do to runs and when, and that repeating a request changes nothing."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.patience import PATIENCE
from tests.reference import cli_env as d
from tests.reference.commanded import replied
from tests.reference.server_env import ASK, ServerEnv, final
from turngate_reference.data_dir import locked
from turngate_reference.server.requests import ApiError
from turngate_reference.server.store import runs
from turngate_reference.states import State


def test_a_repeated_create_is_one_run(server_env: ServerEnv) -> None:
    """The same key and body return the same run; the same key with another body is rejected."""
    server_env.cli_env.engine("codex", d.codex("ok"))
    first, second = server_env.create(key="k"), server_env.create(key="k")
    assert first == second
    assert sum(runs.counts(server_env.server.store).values()) == 1
    with pytest.raises(ApiError, match="IDEMPOTENCY_KEY_REUSED"):
        server_env.create("another", key="k")


def test_concurrent_creates_with_one_key_are_one_run(server_env: ServerEnv) -> None:
    """Eight concurrent requests with one key create one run and one directory."""
    server_env.cli_env.engine("codex", d.codex("ok"))
    gate = threading.Barrier(8)

    def create(_: int) -> str:
        gate.wait()
        return server_env.create(key="k")

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(create, range(8)))) == 1
    assert len(list((server_env.cli_env.data / "runs").iterdir())) == 1


def test_a_repeated_reply_is_one_resume(server_env: ServerEnv) -> None:
    """The key is checked before the state, so the answer is the same even after the run has ended."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    run_id, question = server_env.ask()
    first = server_env.reply(run_id, question, key="k")
    assert server_env.reply(run_id, question, key="k") == first
    server_env.wait(run_id, State.SUCCEEDED)
    assert server_env.reply(run_id, question, key="k") == first
    with pytest.raises(ApiError, match="IDEMPOTENCY_KEY_REUSED"):
        server_env.reply(run_id, question, "blue", key="k")
    assert len(server_env.cli_env.calls()) == 2


def test_of_many_replies_one_is_taken(server_env: ServerEnv) -> None:
    """Of eight concurrent replies without a key, one resumes the run; the others are rejected and change nothing."""
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    run_id, question = server_env.ask()
    gate = threading.Barrier(8)

    def reply(number: int) -> str:
        gate.wait()
        try:
            server_env.reply(run_id, question, str(number))
        except ApiError as refused:
            return refused.code
        return "taken"

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(reply, range(8)))
    server_env.wait(run_id, State.SUCCEEDED)
    assert answers == ["NOT_WAITING"] * 7 + ["taken"]
    with pytest.raises(ApiError, match="this question was already answered, and the run is succeeded"):
        server_env.reply(run_id, question)
    assert len(server_env.cli_env.calls()) == 2


def test_a_stale_reply_changes_nothing(server_env: ServerEnv) -> None:
    """A wrong interaction id is rejected, and the run keeps waiting."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, _ = server_env.ask()
    with pytest.raises(ApiError, match="INTERACTION_STALE"):
        replied(server_env.server, run_id, {"interaction_id": "0", "response": "red"})
    assert server_env.run(run_id).state is State.WAITING_USER
    with pytest.raises(ApiError, match="RUN_NOT_FOUND"):
        replied(server_env.server, "nobody", {"interaction_id": "0", "response": "red"})


def test_cancel_ends_a_running_turn(server_env: ServerEnv) -> None:
    """The run is canceled once its processes are gone; canceling it again returns the same answer."""
    server_env.cli_env.engine("codex", d.codex(ASK, more=[["meet"]]))
    run_id = server_env.create(execution_mode="interactive")
    pid = server_env.cli_env.meet()
    assert server_env.server.commands.cancel(run_id).cancel_requested
    run = server_env.wait(run_id, State.CANCELED)
    assert not psutil.pid_exists(pid)
    assert run.error is None
    assert server_env.cli_env.record(run.handle)["state"] == "canceled"
    assert server_env.server.commands.cancel(run_id).state is State.CANCELED


def test_cancel_ends_what_waits(server_env: ServerEnv) -> None:
    """A waiting run is canceled at once, and accepts no more replies."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, question = server_env.ask()
    assert server_env.server.commands.cancel(run_id).state is State.CANCELED
    record = server_env.cli_env.record(server_env.run(run_id).handle)
    assert (record["state"], record["session"]["value"]) == ("canceled", d.SESSION)
    with pytest.raises(ApiError, match="NOT_WAITING"):
        server_env.reply(run_id, question)


def test_cancel_does_not_undo_an_end(server_env: ServerEnv) -> None:
    """Canceling a run that has succeeded doesn't change its state."""
    server_env.cli_env.engine("codex", d.codex("ok"))
    run_id = server_env.create()
    server_env.wait(run_id, State.SUCCEEDED)
    with pytest.raises(ApiError, match="RUN_ENDED"):
        server_env.server.commands.cancel(run_id)


def failed_run(server_env: ServerEnv, **more: Any) -> str:
    """Fail an interactive run whose session the engine keeps; its Codex then succeeds."""
    server_env.keep_session()
    server_env.cli_env.engine("codex", d.codex("no envelope"), d.codex(final(colour="red")))
    run_id = server_env.create(execution_mode="interactive", **more)
    assert server_env.failed(run_id).code == "ENVELOPE_INVALID"
    return run_id


def test_a_failed_run_is_continued_in_its_session(server_env: ServerEnv) -> None:
    """The next turn resumes the session with the message, only once, and the error is gone."""
    run_id = failed_run(server_env)
    answer = server_env.go_on(run_id, key="once")
    assert answer.state is State.QUEUED
    run = server_env.wait(run_id, State.SUCCEEDED)
    assert server_env.go_on(run_id, key="once") == answer
    assert (run.turn_index, run.error, run.final_data) == (2, None, {"colour": "red"})
    _, second = server_env.cli_env.calls()
    assert d.SESSION in second["argv"]
    assert "use an envelope" in second["stdin"]
    assert "paint it" not in second["stdin"]
    assert server_env.states(run_id) == ["queued", "running", "failed", "queued", "running", "succeeded"]


@pytest.mark.parametrize("end", ["succeeded", "canceled"])
def test_a_run_is_continued_whatever_its_end(server_env: ServerEnv, end: str) -> None:
    """After a result or a cancel, too; the result stays with its turn, and the run has only a new one."""
    server_env.cli_env.engine(
        "codex", d.codex(ASK), *[d.codex(final(coats=1))] * (end == "succeeded"), d.codex(final(coats=2))
    )
    run_id, question = server_env.ask()
    if end == "canceled":
        server_env.server.commands.cancel(run_id)
    else:
        server_env.reply(run_id, question)
    before = server_env.wait(run_id, State(end))
    server_env.go_on(run_id, "once more")
    run = server_env.wait(run_id, State.SUCCEEDED)
    assert (run.final_data, run.turn_index, run.cancel_requested) == ({"coats": 2}, before.turn_index + 1, False)
    assert "once more" in server_env.cli_env.calls()[-1]["stdin"]
    kept = [turn.final_data for turn in runs.turns(server_env.server.store, run_id)]
    assert kept == [*[None] * (before.turn_index - 1), before.final_data, None]
    assert server_env.states(run_id)[-4:] == [end, "queued", "running", "succeeded"]


def test_a_run_that_has_not_ended_is_not_continued(server_env: ServerEnv) -> None:
    """A waiting run takes a reply instead."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, _ = server_env.ask()
    with pytest.raises(ApiError, match="NOT_CONTINUABLE: the run can't be continued: it is waiting_user") as refused:
        server_env.go_on(run_id)
    assert refused.value.hint == "reply to its question"


def test_a_run_without_its_session_is_not_continued(server_env: ServerEnv) -> None:
    """Neither in mode auto, nor if the session is gone, nor if a terminal has it or had it since."""
    run_id = failed_run(server_env)
    run = server_env.run(run_id)
    data = server_env.settings.data
    with locked(data.lock(run.handle), run.handle), pytest.raises(ApiError, match=r"NOT_CONTINUABLE.*is in use"):
        server_env.go_on(run_id)
    server_env.cli_env.change(run.handle, {"turns": 2})
    with pytest.raises(ApiError, match="a terminal has continued it since"):
        server_env.go_on(run_id)
    server_env.cli_env.change(run.handle, {"turns": 1})
    server_env.keep_session().unlink()
    with pytest.raises(ApiError, match="session store does not hold"):
        server_env.go_on(run_id)
    server_env.cli_env.engine("codex", [["exit", 3]])
    auto = server_env.create()
    server_env.failed(auto)
    with pytest.raises(ApiError, match="only interactive runs"):
        server_env.go_on(auto)
    assert server_env.states(run_id)[-1] == "failed"


def test_a_run_is_not_continued_in_a_workspace_in_use(closed_server_env: ServerEnv) -> None:
    """Another run works there meanwhile."""
    (root := closed_server_env.cli_env.root / "projects" / "door").mkdir(parents=True)
    with closed_server_env.opened(workspace_root=root.parent):
        run_id = failed_run(closed_server_env, workspace="door")
        closed_server_env.cli_env.engine("codex", d.codex(ASK))
        closed_server_env.ask(workspace="door")
        with pytest.raises(ApiError, match="WORKSPACE_BUSY"):
            closed_server_env.go_on(run_id)
        assert closed_server_env.run(run_id).state is State.FAILED


def test_slots_bound_what_runs_and_the_queue_is_fair(server_env: ServerEnv) -> None:
    """With two slots in use, the third and fourth run are queued, and start in the order of their creation."""
    server_env.cli_env.engine("codex", d.codex("ok", more=[["meet"]]))
    made = [server_env.create(str(number)) for number in range(4)]
    for run_id in made[:2]:
        server_env.wait(run_id, State.RUNNING)
    assert [server_env.run(run_id).state for run_id in made[2:]] == [State.QUEUED] * 2
    assert server_env.server.commands.cancel(made[2]).state is State.CANCELED
    for run_id in made[:2]:
        server_env.server.commands.cancel(run_id)
    assert server_env.wait(made[3], State.RUNNING).turn_index == 1
    server_env.server.commands.cancel(made[3])
    server_env.wait(made[3], State.CANCELED)


def test_a_workspace_has_one_unfinished_run(closed_server_env: ServerEnv, tmp_path: Path) -> None:
    """A second run in a directory is rejected until the first has ended, whatever path names the directory."""
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "link").symlink_to("a")
    closed_server_env.keep_session()
    closed_server_env.cli_env.engine("codex", d.codex(ASK))
    with closed_server_env.opened(workspace_root=root):
        run_id, _ = closed_server_env.ask(workspace="a")
        assert closed_server_env.cli_env.calls()[0]["cwd"] == str(root / "a")
        with pytest.raises(ApiError, match="WORKSPACE_BUSY"):
            closed_server_env.create(workspace=str(root / "link"))
        assert len(list((closed_server_env.cli_env.data / "runs").iterdir())) == 1
        closed_server_env.server.commands.cancel(run_id)
        closed_server_env.create(workspace="a")


def test_a_workspace_that_was_swapped_is_noticed(closed_server_env: ServerEnv, tmp_path: Path) -> None:
    """If a directory was replaced by a link before the reply, no engine runs in it."""
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "b").mkdir()
    closed_server_env.keep_session()
    closed_server_env.cli_env.engine("codex", d.codex(ASK))
    with closed_server_env.opened(workspace_root=root):
        run_id, question = closed_server_env.ask(workspace="a")
        shutil.rmtree(root / "a")
        (root / "a").symlink_to("b")
        with pytest.raises(ApiError, match=r"WORKSPACE_UNAVAILABLE.*leads to a different directory"):
            closed_server_env.reply(run_id, question)
        assert closed_server_env.run(run_id).state is State.WAITING_USER
        assert len(closed_server_env.cli_env.calls()) == 1


def test_a_slow_executable_holds_up_no_other_writer(server_env: ServerEnv) -> None:
    """A reply to a replaced engine waits for its `--version` before it opens a transaction."""
    executable = server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    run_id, question = server_env.ask()
    interpreter, _, program = executable.read_text().partition("\n")
    meeting, go = (str(executable.parent / name) for name in ("meeting", "go"))
    slow = f'if [ "$*" = --version ]; then printf x >{meeting}; cat {go} >/dev/null; fi\n'
    executable.write_text(f"{interpreter}\n{slow}{program}")
    with ThreadPoolExecutor(1) as pool:
        reply = pool.submit(server_env.reply, run_id, question)
        server_env.cli_env.meet_word()
        try:
            with server_env.server.store.writing():  # fails if somebody else is writing
                assert not reply.done()
        finally:
            server_env.cli_env.release()
        assert reply.result(PATIENCE).state is State.QUEUED
    server_env.wait(run_id, State.SUCCEEDED)
