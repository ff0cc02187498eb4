import re
from itertools import product
from pathlib import Path

import pytest

from tests.reference import cli_env as d
from tests.reference.server_env import ASK, ServerEnv
from turngate.model import Mode
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.events import TextEvent, add_event
from turngate_reference.states import Cause, State


def test_a_transition_outside_of_the_table_is_a_fault_of_ours(server_env: ServerEnv) -> None:
    """A cause that the table doesn't list for a state raises ValueError."""
    with server_env.server.store.writing() as connection, pytest.raises(ValueError, match="no run is queued when"):
        runs.transition(connection, "x", State.QUEUED, Cause.REPLIED)


def test_lists_of_runs_read_no_more_than_they_show(tmp_path: Path) -> None:
    """List queries use an index, and read neither requests nor final data."""
    store = Store(tmp_path / "turngate.db")
    reported: list[str] = []
    store._reader.set_trace_callback(reported.append)
    for state, engine, before in product((None, State.QUEUED), (None, "codex"), (None, 9)):
        runs.summaries(store, state=state, engine=engine, before=before)
    store._reader.set_trace_callback(None)
    for query in reported:
        plan = " ".join(row["detail"] for row in store.read(f"EXPLAIN QUERY PLAN {query}"))
        assert "TEMP B-TREE" not in plan, plan
        condition = query.partition("WHERE")[2]
        assert "runs_by_state_seq" in plan or "state" not in condition or "engine" in condition, plan
        assert not {"request_json", "final_data_json", "*"} & set(re.split(r"[ ,]+", query))
    store.close()


def test_a_summary_tells_of_a_run_what_the_run_tells(server_env: ServerEnv) -> None:
    """A summary has the same values as the run."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, _ = server_env.ask(model="o9", session_timeout_sec=77)
    run, (summary,) = server_env.run(run_id), runs.summaries(server_env.server.store)
    assert (run.model, run.session_timeout_sec, run.execution_mode) == ("o9", 77, Mode.INTERACTIVE)
    for name in summary.__struct_fields__:
        assert getattr(summary, name) == getattr(run, name)


def test_progress_is_news_to_those_whom_it_concerns(server_env: ServerEnv) -> None:
    """Followers of all runs get state changes as news; followers of one run get all of its events."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, _ = server_env.ask()
    store = server_env.server.store
    last = runs.last_event_id(store)
    assert runs.progress(store, None, 0) == runs.progress(store, run_id, 0) == (last, True)
    assert runs.progress(store, None, last) == runs.progress(store, run_id, last) == (last, False)
    with store.writing() as connection:
        add_event(connection, run_id, TextEvent(1, "x"))
    assert runs.progress(store, None, last) == (runs.last_event_id(store), False)
    assert runs.progress(store, run_id, last) == (runs.last_event_id(store), True)
    assert runs.progress(store, "another", last) == (last, False)


def test_the_last_events_come_in_order(server_env: ServerEnv) -> None:
    """The latest events are returned in order, and so are those before a given event."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    run_id, _ = server_env.ask()
    events = runs.events(server_env.server.store, run_id)
    assert runs.latest_events(server_env.server.store, run_id, None, 3) == events[-3:]
    assert runs.latest_events(server_env.server.store, run_id, events[-1].id, 2) == events[-3:-1]


def test_prompts_are_cut(server_env: ServerEnv) -> None:
    """Only the requested runs' prompts are returned, shortened."""
    server_env.cli_env.engine("codex", d.codex(ASK))
    first, _ = (server_env.create("\u00e9" * 9), server_env.create("b"))
    assert runs.prompts(server_env.server.store, [first], 3) == {first: "\u00e9" * 3}
    assert runs.prompts(server_env.server.store, [], 3) == {}
