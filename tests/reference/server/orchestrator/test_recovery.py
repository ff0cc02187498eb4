"""Tests of how a restart handles the runs of a killed server."""

import json
import subprocess
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec.structs import replace

from tests.fakes.hopper import hopper
from tests.patience import PATIENCE
from tests.reference import cli_env as d
from tests.reference.crash import kill_server
from tests.reference.server_env import ASK, ServerEnv, final
from turngate.contract import load
from turngate.contract.engine_contract import Deviation
from turngate.process.family import is_alive, start_time
from turngate_reference.server.orchestrator import recovery
from turngate_reference.server.orchestrator.recovery import recover
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.runs import Run
from turngate_reference.states import Cause, State


def only(server_env: ServerEnv, state: State) -> Run:
    """Return the only run in a state."""
    (run,) = runs.in_state(server_env.server.store, state)
    return run


@pytest.mark.long
def test_a_waiting_run_is_answered_after_a_restart(closed_server_env: ServerEnv) -> None:
    """The new server knows the question, and the reply resumes the same session."""
    server_env = closed_server_env
    server_env.keep_session()
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    kill_server(server_env, "wait(create('a', execution_mode='interactive'), 'waiting_user')\ndie()")
    with server_env.opened():
        run = only(server_env, State.WAITING_USER)
        server_env.reply(run.run_id, server_env.question(run.run_id))
        assert server_env.wait(run.run_id, State.SUCCEEDED).turn_index == 2
    assert d.SESSION in server_env.cli_env.calls()[1]["argv"]


@pytest.mark.long
def test_a_waiting_run_of_an_earlier_release_loses_the_process_that_it_kept(closed_server_env: ServerEnv) -> None:
    """A resumable run could keep its process; the new server ends it, and the reply starts another one."""
    server_env = closed_server_env
    server_env.keep_session()
    server_env.cli_env.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    kill_server(server_env, "wait(create('a', execution_mode='interactive'), 'waiting_user')\ndie()")
    with subprocess.Popen(["sleep", "600"]) as kept:
        note = {"tag": "no-process", "kept": {"tag": "none", "pid": kept.pid, "started_at": start_time(kept.pid)}}
        with closing(Store(server_env.settings.data.database)) as store, store.writing() as connection:
            profile = "profile_json = json_set(profile_json, '$.warm_wait_sec', 600, '$.warm_wait_reason', 'r')"
            request = "request_json = json_set(request_json, '$.warm_wait_sec', 600)"
            sql = f"UPDATE runs SET {profile}, {request}, process_json = ?"
            connection.execute(sql, (json.dumps(note),))
        with server_env.opened():
            assert kept.wait(PATIENCE) != 0
            run = only(server_env, State.WAITING_USER)
            assert run.process is None
            server_env.reply(run.run_id, server_env.question(run.run_id))
            assert server_env.wait(run.run_id, State.SUCCEEDED).turn_index == 2
    assert d.SESSION in server_env.cli_env.calls()[1]["argv"]


@pytest.mark.processes
def test_what_a_session_may_lack_after_the_kill_is_told(
    closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The turn whose engine was ended at the restart reports it."""
    server_env = closed_server_env
    known = (Deviation("resume.after-kill", "turn-lost", "tell the user"),)
    monkeypatch.setattr(recovery, "contract_for", lambda *_: replace(load.contract("codex").at(), deviations=known))
    server_env.cli_env.engine("codex", d.codex("a", more=[["meet"]]))
    kill_server(server_env, "first = create('first')\nwait(first, 'running')\nmet()\ndie()")
    with server_env.opened():
        run = only(server_env, State.FAILED)
        (turn,) = runs.turns(server_env.server.store, run.run_id)
    assert [one.text for one in turn.reported] == [
        "Codex CLI was killed in this turn, so the session may lack this turn"
    ]


@pytest.mark.processes
def test_a_running_turn_is_ended_and_failed(closed_server_env: ServerEnv) -> None:
    """The orphaned process tree is ended; queued runs start after that."""
    server_env = closed_server_env
    server_env.cli_env.engine("codex", d.codex("a", more=[["meet"]]), d.codex("b"))
    kill_server(server_env, "first, second = create('first'), create('second')\nwait(first, 'running')\nmet()\ndie()")
    pid = int((server_env.cli_env.path / "pid").read_text())
    orphan = psutil.Process(pid)
    with server_env.opened():
        assert not is_alive(orphan)
        run = only(server_env, State.FAILED)
        assert run.error
        assert run.error.code == "ORCHESTRATOR_RESTART_INTERRUPTED"
        (second,) = [r for r in runs.summaries(server_env.server.store) if r.run_id != run.run_id]
        assert server_env.wait(second.run_id, State.SUCCEEDED).final_data == {"text": "b"}
        (turn,) = runs.turns(server_env.server.store, run.run_id)
        assert turn.outcome == "error"
        assert turn.ended_at
        assert runs.events(server_env.server.store, run.run_id)[-2].type == "turn.ended"
        assert server_env.cli_env.record(run.handle)["state"] == "failed"


@pytest.mark.processes
def test_what_goes_on_in_new_processes_is_ended(closed_server_env: ServerEnv, tmp_path: Path) -> None:
    """A process that forks and changes its session every 10 ms is ended with its turn, and by the next server."""
    server_env = closed_server_env
    with hopper(tmp_path) as hops:
        hop = ["hop", str(hops.fifo)]
        server_env.cli_env.engine("codex", d.codex("a", more=[hop]), d.codex("b", more=[hop, ["meet"]]))
        with server_env.opened():
            server_env.wait(server_env.create(), State.SUCCEEDED)
            assert hops.is_gone()
        kill_server(server_env, "run_id = create('b')\nmet()\ndie()")
        assert not hops.is_gone(0)
        with server_env.opened():
            assert hops.is_gone()


@pytest.mark.long
def test_a_process_that_was_not_noted_is_found_by_its_tag(closed_server_env: ServerEnv) -> None:
    """A process that the server started but didn't record before it died is still ended."""
    server_env = closed_server_env
    server_env.cli_env.engine("codex", d.codex("a", more=[["meet"]]))
    kill_server(
        server_env,
        "import turngate_reference.server.orchestrator.headless as headless\n"
        "import psutil\ndef lose(pid): raise psutil.NoSuchProcess(pid)\n"
        "headless.start_time = lose\ncreate('a')\nmet()\ndie()",
    )
    orphan = psutil.Process(int((server_env.cli_env.path / "pid").read_text()))
    with server_env.opened():
        assert not is_alive(orphan)


@pytest.mark.long
def test_a_cancel_that_was_under_way_is_done(closed_server_env: ServerEnv) -> None:
    """A running turn with a pending cancel is canceled, not failed."""
    server_env = closed_server_env
    server_env.cli_env.engine("codex", d.codex("a", more=[["meet"]]))
    kill_server(
        server_env,
        "run = create('a')\nmet()\nserver.owner.stop = lambda _: die()\nserver.commands.cancel(run)",
    )
    with server_env.opened():
        assert only(server_env, State.CANCELED).error is None


def test_a_waiting_run_whose_id_is_spoiled_fails_at_the_restart(closed_server_env: ServerEnv) -> None:
    """A restart checks that the session id is present and well-formed; its file is only checked on resume."""
    server_env = closed_server_env
    server_env.keep_session()
    server_env.cli_env.engine("codex", d.codex(ASK))
    with server_env.opened() as server:
        spoiled, _ = server_env.ask()
        other, _ = server_env.ask()
        with server.store.writing() as connection:
            session = server_env.run(spoiled).session
            assert session
            runs.change(connection, spoiled, session=replace(session, handle_value="--yolo"))
    server_env.keep_session().unlink()
    with server_env.opened():
        assert server_env.failed(spoiled).code == "SESSION_RESUME_FAILED"
        assert server_env.cli_env.record(server_env.run(spoiled).handle)["state"] == "failed"
        assert server_env.run(other).state is State.WAITING_USER


def test_a_server_that_ends_in_order_settles_its_turns(closed_server_env: ServerEnv) -> None:
    """A normal shutdown ends and saves all running turns, so the next server finds nothing to recover."""
    server_env = closed_server_env
    server_env.cli_env.engine("codex", d.codex("a", more=[["meet"]]))
    with server_env.opened():
        run_id = server_env.create()
        pid = server_env.cli_env.meet()
    assert not psutil.pid_exists(pid)
    with server_env.opened():
        assert server_env.failed(run_id).code == "ORCHESTRATOR_RESTART_INTERRUPTED"


@pytest.mark.long
def test_a_turn_that_was_asking_for_permission_has_ended(closed_server_env: ServerEnv) -> None:
    """A run that waited for a permission fails together with its turn, and both have an event."""
    server_env = closed_server_env
    server_env.cli_env.engine("codex", d.codex(ASK))
    server_env.keep_session()
    with server_env.opened() as server:
        run_id, _ = server_env.ask()
        with server.store.writing() as connection:
            profile = server_env.run(run_id).profile
            assert profile
            runs.change(connection, run_id, profile=replace(profile, kind="sticky_process"))
            connection.execute("UPDATE turns SET ended_at = NULL, outcome = NULL")
        after = runs.events(server.store, run_id)[-1].id
    with server_env.opened() as server:
        assert server_env.failed(run_id).code == "INTERACTION_PROCESS_LOST"
        (turn,) = runs.turns(server.store, run_id)
        assert (bool(turn.ended_at), turn.outcome) == (True, "error")
        assert [event.type for event in runs.events(server.store, run_id, after)] == ["turn.ended", "state"]


def test_a_turn_that_had_ended_is_left_as_it_was(closed_server_env: ServerEnv) -> None:
    """A run that waited between turns fails, but the turn that ended with the question doesn't."""
    server_env = closed_server_env
    server_env.cli_env.engine("codex", d.codex(ASK))
    server_env.keep_session()
    with server_env.opened() as server:
        run_id, _ = server_env.ask()
        before = runs.turns(server.store, run_id)
        with server.store.writing() as connection:
            runs.change(connection, run_id, session=None)
    with server_env.opened() as server:
        assert server_env.failed(run_id).code == "SESSION_RESUME_FAILED"
        assert runs.turns(server.store, run_id) == before


@pytest.mark.long
def test_what_can_not_be_ended_is_tried_again(closed_server_env: ServerEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of a process that survives stays for the next server."""
    server_env = closed_server_env
    server_env.cli_env.engine("codex", d.codex("a", more=[["meet"]]))
    kill_server(server_env, "wait(create('first'), 'running')\nmet()\ndie()")
    orphan = psutil.Process(int((server_env.cli_env.path / "pid").read_text()))
    with monkeypatch.context() as patch:
        patch.setattr("turngate_reference.server.orchestrator.recovery.end_orphans", lambda noted: (len(list(noted)),))
        with server_env.opened():
            assert only(server_env, State.FAILED).process
    assert orphan.is_running()
    with server_env.opened():
        assert not is_alive(orphan)
        assert only(server_env, State.FAILED).process is None


@pytest.mark.long
@pytest.mark.nightly
def test_many_large_runs_are_not_held_at_once(closed_server_env: ServerEnv) -> None:
    """A restart reads only what it needs of waiting runs, one run at a time."""
    server_env = closed_server_env
    server_env.cli_env.engine("codex", d.codex(ASK))
    server_env.keep_session()
    with server_env.opened() as server:
        run_id, _ = server_env.ask()
        like = server_env.run(run_id)
        with server.store.writing() as connection:
            for number in range(200):
                copy = f"{number:08}"
                runs.insert(connection, copy, like.run_directory / copy, replace(like.launch, prompt="x" * 100_000))
                settled: dict[str, Any] = {"profile": like.profile, "session": like.session, "turn_index": 1}
                runs.transition(connection, copy, State.QUEUED, Cause.CLAIMED, **settled)
                runs.transition(connection, copy, State.RUNNING, Cause.ASKED)
    store = Store(server_env.settings.data.root / "turngate.db")
    tracemalloc.start()
    try:
        recover(store, Records(server_env.settings.data))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        store.close()
    assert peak < 2**20


def test_locations_of_turn_1_are_used_later(closed_server_env: ServerEnv) -> None:
    """A server started with another HOME resumes where the session was created; the store holds no secrets."""
    server_env = closed_server_env
    server_env.keep_session()
    server_env.cli_env.engine(
        "codex",
        d.codex(ASK, more=[["env", "HOME"], ["env", "OPENAI_API_KEY"]]),
        d.codex(final(x=1), more=[["env", "HOME"], ["env", "OPENAI_API_KEY"], ["env", "ODD"]]),
    )
    env = dict(server_env.settings.env)
    with server_env.opened(env=env | {"OPENAI_API_KEY": "sk-first-0123456789"}):
        run_id, question = server_env.ask()
        home = env["HOME"]
    with server_env.opened(env=env | {"HOME": "/nonexistent", "OPENAI_API_KEY": "sk-second-0123456789", "ODD": "1"}):
        server_env.reply(run_id, question)
        run = server_env.wait(run_id, State.SUCCEEDED)
    said = (run.run_directory / ".turngate" / "attempt-002" / "stderr").read_text()
    assert said == f"HOME={home}\nOPENAI_API_KEY=sk-second-0123456789\nODD=None\n"
    database = b"".join(file.read_bytes() for file in server_env.cli_env.data.glob("turngate.db*"))
    assert b"0123456789" not in database.replace(d.SESSION.encode(), b"")


@pytest.mark.long
@pytest.mark.parametrize("step", ["open_private", "make_new_private", "write_atomically"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_what_is_left_of_a_killed_creation_is_removed(closed_server_env: ServerEnv, step: str, moment: str) -> None:
    """A creation is killed around each of its disk steps; a restart removes the remains, and nothing else."""
    server_env = closed_server_env
    server_env.cli_env.engine("codex", d.codex("first"), d.codex(final(x=1)))
    conversation = server_env.cli_env.begin()
    kill_server(
        server_env,
        f"""
first = create("first")
wait(first, "succeeded")
from turngate import files
from turngate_reference import handle_record
real = files.{step}
def killed(*args, **more):
    if {moment == "after"}:
        real(*args, **more)
    die()
files.{step} = handle_record.{step} = killed
create("second")
""",
    )
    with server_env.opened():
        (run,) = runs.summaries(server_env.server.store)
        kept = {conversation, run.handle}
        assert {path.name[-8:] for path in (server_env.cli_env.data / "runs").iterdir()} == kept
        names = {f"{handle}.{ending}" for handle in kept for ending in ("json", "lock")}
        assert {path.name for path in (server_env.cli_env.data / "handles").iterdir()} == names
