"""Agents that ask their users, on many hosts: the loop of turngate on DBOS and PostgreSQL.

Each turn is one durable workflow, `RUN.NUMBER`. It takes a `TurnInput` and returns a `TurnOutput`, both as JSON. A run
that waits for its user is therefore no more than the row of a workflow that has ended: no process, no thread. The reply
starts the next workflow. Its id is taken, so of many replies to one question one is accepted.

Workflows of first turns are in a queue that every worker listens to, and those of later turns in the queue of the host
that has the session. A turn is never repeated: see `worker.py`.
"""
