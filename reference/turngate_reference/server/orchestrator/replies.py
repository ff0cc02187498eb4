"""The user's reply to a waiting run: whoever first changes the run's state in the store has given it."""

import sqlite3

from turngate_reference.server.orchestrator import finish
from turngate_reference.server.states import State
from turngate_reference.server.store import runs
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.rows import Run


def close_question(connection: sqlite3.Connection, run: Run, response: str, *, terminal: bool = False) -> None:
    """Store the reply to the open question of a run; `terminal` says that it came by `turngate resume`."""
    pending = run.pending_interaction_id
    connection.execute(
        "UPDATE interactions SET response = ?, answered_at = ? WHERE interaction_id = ?",
        (response, runs.now(), pending),
    )
    told = {"interaction_id": pending} | ({"terminal": True} if terminal else {})
    runs.add_event(connection, run.run_id, "reply", told)


def claim_at_terminal(store: Store, run: Run, response: str, tag: str) -> Run | None:
    """Take the reply to a run's question, and begin the next turn here and now; None: the question is closed already.

    The run never enters the queue, so no server starts this turn too. `tag` is what the turn's processes will carry.
    """
    with store.writing() as connection:
        now, turn_index = runs.get(connection, run.run_id), run.turn_index + 1
        if (now.state, now.pending_interaction_id) != (State.WAITING_USER, run.pending_interaction_id):
            return None
        close_question(connection, run, response, terminal=True)
        runs.transition(
            connection, run.run_id, State.WAITING_USER, State.RUNNING,
            pending=run.pending_interaction_id, pending_interaction_id=None,
            turn_index=turn_index, process={"tag": tag, "terminal": True},
        )  # fmt: skip
        finish.begin(connection, run.run_id, turn_index)
        return runs.get(connection, run.run_id)
