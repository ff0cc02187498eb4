"""What a restart makes of the runs that a killed server left."""

import tracemalloc
from typing import Any

import psutil
import pytest

from tests.reference import cli_env as d
from tests.reference.crash import kill_server
from tests.reference.server_env import ASK, House, final
from turngate.process import is_alive
from turngate_reference.server.orchestrator.recovery import recover
from turngate_reference.server.orchestrator.run_files import Records
from turngate_reference.server.states import State
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.rows import Run


def only(house: House, state: State) -> Run:
    """Return the only run in a state."""
    (run,) = runs.in_state(house.server.store, state)
    return run


def test_a_waiting_run_is_answered_after_a_restart(closed_house: House) -> None:
    """The new server knows the question, and the reply resumes the same session."""
    house = closed_house
    house.keep_session()
    house.desk.engine("codex", d.codex(ASK), d.codex(final(x=1)))
    kill_server(house, "wait(create('a', execution_mode='interactive'), 'waiting_user')\ndie()")
    with house.opened():
        run = only(house, State.WAITING_USER)
        house.reply(run.run_id, house.question(run.run_id))
        assert house.wait(run.run_id, State.SUCCEEDED).turn_index == 2
    assert d.SESSION in house.desk.calls()[1]["argv"]


def test_a_running_turn_is_ended_and_failed(closed_house: House) -> None:
    """The orphan is found and ended, whole; what was queued runs after that."""
    house = closed_house
    house.desk.engine("codex", d.codex("a", more=[["meet"]]), d.codex("b"))
    kill_server(house, "first, second = create('first'), create('second')\nwait(first, 'running')\nmet()\ndie()")
    pid = int((house.desk.path / "pid").read_text())
    orphan = psutil.Process(pid)
    with house.opened():
        assert not is_alive(orphan)
        run = only(house, State.FAILED)
        assert run.error
        assert run.error["code"] == "ORCHESTRATOR_RESTART_INTERRUPTED"
        (second,) = [r for r in runs.summaries(house.server.store) if r.run_id != run.run_id]
        assert house.wait(second.run_id, State.SUCCEEDED).final_data == {"text": "b"}
        (turn,) = runs.turns(house.server.store, run.run_id)
        assert turn.outcome == "error"
        assert turn.ended_at
        assert runs.events(house.server.store, run.run_id)[-2].type == "turn.ended"
        assert house.desk.record(run.handle)["state"] == "failed"


def test_a_process_that_was_not_noted_is_found_by_its_tag(closed_house: House) -> None:
    """A server that dies between starting a process and noting it leaves none behind."""
    house = closed_house
    house.desk.engine("codex", d.codex("a", more=[["meet"]]))
    kill_server(
        house,
        "import turngate_reference.server.orchestrator.turns as turns\n"
        "def lose(pid): raise ProcessLookupError\n"
        "turns.start_time = lose\ncreate('a')\nmet()\ndie()",
    )
    orphan = psutil.Process(int((house.desk.path / "pid").read_text()))
    with house.opened():
        assert not is_alive(orphan)


def test_a_cancel_that_was_under_way_is_done(closed_house: House) -> None:
    """A running turn whose cancel was asked for is canceled, not failed."""
    house = closed_house
    house.desk.engine("codex", d.codex("a", more=[["meet"]]))
    kill_server(
        house,
        "run = create('a')\nmet()\nserver.dispatcher.stop = lambda _: die()\nserver.commands.cancel(run)",
    )
    with house.opened():
        assert only(house, State.CANCELED).error is None


def test_a_waiting_run_whose_id_is_spoiled_fails_at_the_restart(closed_house: House) -> None:
    """Presence and shape decide at the restart; the session's file is looked for only when it is resumed."""
    house = closed_house
    house.keep_session()
    house.desk.engine("codex", d.codex(ASK))
    with house.opened() as server:
        spoiled, _ = house.ask()
        other, _ = house.ask()
        with server.store.writing() as connection:
            session = {**(house.run(spoiled).session or {}), "handle_value": "--yolo"}
            runs.change(connection, spoiled, session=session)
    house.keep_session().unlink()
    with house.opened():
        assert house.failed(spoiled)["code"] == "SESSION_RESUME_FAILED"
        assert house.desk.record(house.run(spoiled).handle)["state"] == "failed"
        assert house.run(other).state is State.WAITING_USER


def test_a_server_that_ends_in_order_settles_its_turns(closed_house: House) -> None:
    """Closing ends what runs, and writes it down; nothing is left for the next server to find."""
    house = closed_house
    house.desk.engine("codex", d.codex("a", more=[["meet"]]))
    with house.opened():
        run_id = house.create()
        pid = house.desk.meet()
    assert not psutil.pid_exists(pid)
    with house.opened():
        assert house.failed(run_id)["code"] == "ORCHESTRATOR_RESTART_INTERRUPTED"


def test_a_turn_that_was_asking_for_permission_has_ended(closed_house: House) -> None:
    """A run that waited amid its turn fails with the turn, and both are told."""
    house = closed_house
    house.desk.engine("codex", d.codex(ASK))
    house.keep_session()
    with house.opened() as server:
        run_id, _ = house.ask()
        with server.store.writing() as connection:
            profile = {**(house.run(run_id).profile or {}), "kind": "sticky_process"}
            runs.change(connection, run_id, profile=profile)
            connection.execute("UPDATE turns SET ended_at = NULL, outcome = NULL")
        after = runs.events(server.store, run_id)[-1].id
    with house.opened() as server:
        assert house.failed(run_id)["code"] == "INTERACTION_PROCESS_LOST"
        (turn,) = runs.turns(server.store, run_id)
        assert (bool(turn.ended_at), turn.outcome) == (True, "error")
        assert [event.type for event in runs.events(server.store, run_id, after)] == ["turn.ended", "state"]


def test_a_turn_that_had_ended_is_left_as_it_was(closed_house: House) -> None:
    """A run that waited between two turns fails, and the turn that ended with the question did not."""
    house = closed_house
    house.desk.engine("codex", d.codex(ASK))
    house.keep_session()
    with house.opened() as server:
        run_id, _ = house.ask()
        before = runs.turns(server.store, run_id)
        with server.store.writing() as connection:
            runs.change(connection, run_id, session=None)
    with house.opened() as server:
        assert house.failed(run_id)["code"] == "SESSION_RESUME_FAILED"
        assert runs.turns(server.store, run_id) == before


def test_what_can_not_be_ended_is_tried_again(closed_house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note of a process that survives stays for the next server."""
    house = closed_house
    house.desk.engine("codex", d.codex("a", more=[["meet"]]))
    kill_server(house, "wait(create('first'), 'running')\nmet()\ndie()")
    orphan = psutil.Process(int((house.desk.path / "pid").read_text()))
    with monkeypatch.context() as patch:
        patch.setattr("turngate_reference.server.orchestrator.recovery.end_orphans", lambda noted: (len(list(noted)),))
        with house.opened():
            assert only(house, State.FAILED).process
    assert orphan.is_running()
    with house.opened():
        assert not is_alive(orphan)
        assert only(house, State.FAILED).process is None


def test_many_large_runs_are_not_held_at_once(closed_house: House) -> None:
    """A restart reads of those who wait what it needs, one after the other."""
    house = closed_house
    house.desk.engine("codex", d.codex(ASK))
    house.keep_session()
    with house.opened() as server:
        run_id, _ = house.ask()
        like = house.run(run_id)
        with server.store.writing() as connection:
            for number in range(200):
                copy = f"{number:08}"
                runs.insert(connection, copy, like.run_directory / copy, like.request | {"prompt": "x" * 100_000})
                settled: dict[str, Any] = {"profile": like.profile, "session": like.session, "turn_index": 1}
                runs.transition(connection, copy, State.QUEUED, State.RUNNING, **settled)
                runs.transition(connection, copy, State.RUNNING, State.WAITING_USER)
    store = Store(house.settings.data.root / "turngate.db")
    tracemalloc.start()
    try:
        recover(store, Records(house.settings.data))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        store.close()
    assert peak < 2**20


def test_locations_of_turn_1_are_used_later(closed_house: House) -> None:
    """A server that is started with another HOME resumes where the session lies; secrets are not in the store."""
    house = closed_house
    house.keep_session()
    house.desk.engine(
        "codex",
        d.codex(ASK, more=[["env", "HOME"], ["env", "OPENAI_API_KEY"]]),
        d.codex(final(x=1), more=[["env", "HOME"], ["env", "OPENAI_API_KEY"], ["env", "ODD"]]),
    )
    env = dict(house.settings.env)
    with house.opened(env=env | {"OPENAI_API_KEY": "sk-first-0123456789"}):
        run_id, question = house.ask()
        home = env["HOME"]
    with house.opened(env=env | {"HOME": "/nonexistent", "OPENAI_API_KEY": "sk-second-0123456789", "ODD": "1"}):
        house.reply(run_id, question)
        run = house.wait(run_id, State.SUCCEEDED)
    said = (run.run_directory / ".turngate" / "attempt-002" / "stderr").read_text()
    assert said == f"HOME={home}\nOPENAI_API_KEY=sk-second-0123456789\nODD=None\n"
    database = b"".join(file.read_bytes() for file in house.desk.data.glob("turngate.db*"))
    assert b"0123456789" not in database.replace(d.SESSION.encode(), b"")
