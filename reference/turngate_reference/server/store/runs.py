"""Runs, turns, questions and events in the store, and the only way to change the state of a run."""

import json
import math
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec import UNSET, Struct, UnsetType, structs

from turngate import EngineSessionHandle, Mode, Reported
from turngate.decoding import convert, decode
from turngate.model import EngineInteractiveProfile, EngineResumeCapability
from turngate_reference.handle_record import now
from turngate_reference.server.requests import ApiError, IdempotencyKey, RunLaunch
from turngate_reference.server.store.database import Store
from turngate_reference.server.store.events import AskedQuestion, StateEvent, StoredEvent, add_event, stored
from turngate_reference.states import ENDED, TRANSITIONS, Cause, RunError, State

_USUAL = {"confirm": ("yes", "no"), "risk_ack": ("I accept the risk", "I do not accept the risk")}
Row = TypeVar("Row", bound=Struct)
_JSON = frozenset({"launch", "recovery", "profile", "capability", "session", "process", "error", "final_data"})
_API_NAMES = {"profile": "interactive_profile", "capability": "resume_capability", "session": "engine_session_handle"}
_UNSHOWN = frozenset({"seq", "run_directory", "request", "recovery", "process"})
_RUN = "SELECT * FROM runs WHERE run_id = ?"
_ASKED_AT = "(SELECT asked_at FROM interactions WHERE interaction_id = pending_interaction_id)"
_MESSAGES = """
    SELECT * FROM events WHERE run_id = ? AND type IN ('text', 'interaction', 'reply')
        AND id > (
            SELECT max(id) FROM events
            WHERE run_id = ? AND type = 'turn.started' AND json_extract(data_json, '$.turn_index') = ?
        )
        AND id < coalesce(
            (
                SELECT max(id) FROM events
                WHERE run_id = ? AND type = 'turn.started' AND json_extract(data_json, '$.turn_index') = ?
            ),
            id + 1
        )
    ORDER BY id DESC LIMIT ?
"""
_QUESTION = "SELECT * FROM interactions WHERE interaction_id = ?"
_LAST_ANSWERED = (
    "SELECT * FROM interactions WHERE run_id = ? AND turn_index = ? AND request_id IS NULL AND response IS NOT NULL"
    " ORDER BY answered_at DESC LIMIT 1"
)


class RunProfile(EngineInteractiveProfile, frozen=True, forbid_unknown_fields=False):
    """How a run waits for its user; `no_artifacts` says why it writes no artifacts."""

    no_artifacts: str | UnsetType = UNSET


class RunSession(EngineSessionHandle, frozen=True, forbid_unknown_fields=False):
    """The engine's session id of a run; `note` says that it doesn't look like those that the contract knows."""

    note: str | UnsetType = UNSET


class Recovery(Struct, frozen=True):
    """What turn 1 leaves for later ones: `locations` are the variables that decide where the engine stores sessions.

    `session_seen` says whether its session store held the session right after the turn that made it. None in a location
    means unset.
    """

    locations: dict[str, str | None] = {}
    session_seen: bool | UnsetType = UNSET


class Summary(Struct, frozen=True):
    """The columns of a run that lists show; JSON in the store is data here (`None`: not known yet).

    `session_timeout_sec` is the limit of each turn, and of each wait of a sticky process.
    """

    seq: int
    run_id: str
    handle: str
    engine: str
    engine_version: str | None
    execution_mode: Mode
    model: str | None
    state: State
    turn_index: int
    error: RunError | None
    profile: RunProfile | None
    capability: EngineResumeCapability | None
    session: RunSession | None
    pending_interaction_id: str | None
    wait_deadline_at: str | None
    cancel_requested: bool
    workspace: Path | None
    session_timeout_sec: int
    created_at: str
    updated_at: str
    started_at: str | None
    ended_at: str | None

    @property
    def links(self) -> dict[str, str]:
        """The paths of the run, of what a caller can do with it, and of what it keeps."""
        base = f"/v1/runs/{self.run_id}"
        below = {name: f"{base}/{name}" for name in ("interaction", "continue", "cancel", "turns", "events")}
        return {"self": base, "reply": f"{base}/interaction/reply", **below}

    def to_json(self) -> dict[str, Any]:
        """Return the run as the API and `turngate handles --json` show it, without its final data if it lacks them."""
        members = msgspec.to_builtins(self, enc_hook=str)
        shown = {_API_NAMES.get(name, name): value for name, value in members.items() if name not in _UNSHOWN}
        return shown | {"links": self.links}

    @property
    def is_sticky(self) -> bool:
        """Whether it waits with its process, in which alone its next turn can run."""
        return self.profile is not None and self.profile.kind == "sticky_process"

    @property
    def is_resumable(self) -> bool:
        """Whether it waits without a process."""
        return self.profile is not None and self.profile.kind == "resumable"


class ProcessNote(Struct, frozen=True, omit_defaults=True):
    """A process of a run that may still exist, noted so that it can be ended even if the server dies.

    `tag` marks its tree. `pid` and `started_at` (in seconds since the epoch) are None until it has started, and
    `transport_session_id` until a sticky process has told it. `terminal` says that `turngate resume` started it. `kept`
    is an earlier process that could not be ended. `unsent` says that no process has the reply of the turn yet.
    """

    tag: str
    pid: int | None = None
    started_at: float | None = None
    transport_session_id: str | None = None
    terminal: bool = False
    kept: "ProcessNote | None" = None
    unsent: bool = False


class Run(Summary, frozen=True, rename={"launch": "request"}):
    """A run with all its columns."""

    run_directory: Path
    launch: RunLaunch
    recovery: Recovery | None
    process: ProcessNote | None
    final_data: Any

    def to_json(self) -> dict[str, Any]:
        """Return the run as the API shows a single one."""
        allowed = {"trusted_workspace": self.launch.trusted_workspace, "unsafe_allowed": self.launch.unsafe_allowed}
        return super().to_json() | allowed

    @property
    def cwd(self) -> Path:
        """Where the engine works."""
        return self.workspace or own_cwd(self.run_directory)

    @property
    def artifacts(self) -> Path:
        """Where its results go: below the directory that the engine may write to."""
        return self.cwd / "artifacts" / self.handle

    @property
    def locations(self) -> dict[str, str | None]:
        """The variables that decide where the engine stores its sessions, as they were on turn 1 (None: unset)."""
        return self.recovery.locations if self.recovery else {}


class UnsentReply(Struct, frozen=True):
    """A reply that no process got, and why: a code of problems or of run errors."""

    response: str
    code: str
    detail: str


class StoredQuestion(Struct, frozen=True):
    """A question of a run to its user.

    `request_id` is the engine's own id of a request for approval; `response` None means not answered yet. `unsent` is
    the last reply if no process got it.
    """

    interaction_id: str
    run_id: str
    turn_index: int
    question: AskedQuestion
    request_id: str | None
    asked_at: str
    response: str | None
    answered_at: str | None
    unsent: UnsentReply | None = None

    @property
    def suggestions(self) -> tuple[str, ...]:
        """The options, or if the agent suggests none, the usual answers to a question of this kind."""
        return self.question.options or _USUAL.get(self.question.kind, ())


class StoredTurn(Struct, frozen=True):
    """A turn as the API shows it; `argv` lacks the prompt.

    `final_data` is the result that the run had after this turn, if it was continued since. `reported` is what the
    engine reported beside the answer.
    """

    turn_index: int
    started_at: str
    ended_at: str | None
    seconds: float | None
    outcome: str | None
    failure: RunError | None
    repair_level: str | None
    exit_code: int | None
    argv: list[str] | None
    engine_version: str | None
    final_data: Any
    reported: tuple[Reported, ...]


def own_cwd(run_directory: Path) -> Path:
    """Return where the engine works if the caller did not name a workspace."""
    return run_directory / "work"


def insert(
    connection: sqlite3.Connection, handle: str, directory: Path, launch: RunLaunch, workspace: Path | None = None
) -> Run:
    """Add a run in state `queued`, at the end of the queue; the name of its directory is its id."""
    at = now()
    values = _columns(
        {
            "run_id": directory.name,
            "handle": handle,
            "run_directory": directory,
            "launch": launch,
            "engine": launch.engine,
            "execution_mode": launch.execution_mode,
            "model": launch.model,
            "session_timeout_sec": launch.session_timeout_sec,
            "workspace": workspace,
            "state": State.QUEUED,
            "created_at": at,
            "updated_at": at,
            "queue_place": _next_place(connection),
        }
    )
    sql = f"INSERT INTO runs ({', '.join(values)}) VALUES ({', '.join('?' * len(values))})"  # noqa: S608 - our own names
    connection.execute(sql, tuple(values.values()))
    add_event(connection, directory.name, StateEvent(State.QUEUED, 0))
    return get(connection, directory.name)


def transition(connection: sqlite3.Connection, run_id: str, source: State, cause: Cause, **columns: Any) -> bool:
    """Move a run that is in `source`, with other columns; False, and nothing has changed, if it is in another state.

    ValueError if nothing of this cause can happen in `source`. A run that returns to the queue goes to its end.
    """
    if (to := TRANSITIONS[source].get(cause)) is None:
        raise ValueError(f"no run is {source} when this happens: {cause}")
    if to is State.QUEUED:
        columns["queue_place"] = _next_place(connection)
    changed = _update(connection, run_id, {**columns, "state": to}, source)
    if changed:
        run = get(connection, run_id)
        add_event(connection, run_id, StateEvent(to, run.turn_index, run.error or UNSET))
    return changed


def change(connection: sqlite3.Connection, run_id: str, **columns: Any) -> None:
    """Set columns of a run that don't depend on its state."""
    _update(connection, run_id, columns)


def _update(connection: sqlite3.Connection, run_id: str, columns: dict[str, Any], state: State | None = None) -> bool:
    """Set columns of a run; False if it is not in the state (None: any state)."""
    values = _columns({**columns, "updated_at": now()})
    assigned = ", ".join(f"{name} = ?" for name in values)
    sql = f"UPDATE runs SET {assigned} WHERE run_id = ? AND state = coalesce(?, state)"  # noqa: S608 - our own names
    return bool(connection.execute(sql, (*values.values(), run_id, state)).rowcount)


def _next_place(connection: sqlite3.Connection) -> int:
    place: int = connection.execute("SELECT coalesce(max(queue_place), 0) + 1 FROM runs").fetchone()[0]
    return place


def get(connection: sqlite3.Connection, run_id: str) -> Run:
    """Read a run inside a transaction; KeyError if there is none."""
    return _only(connection.execute(_RUN, (run_id,)), Run, run_id)


def find(store: Store, run_id: str) -> Run | None:
    """Read a run."""
    return next(_read(store.read(_RUN, run_id), Run), None)


def summaries(
    store: Store, *, state: State | None = None, engine: str | None = None, limit: int = -1, before: int | None = None
) -> list[Summary]:
    """Read the runs of a list page, newest first; `before` is the `seq` of the last run on the previous page."""
    wanted: dict[str, Any] = {"state = ?": state, "engine = ?": engine, "seq < ?": before}
    given = {condition: value for condition, value in wanted.items() if value is not None}
    where = f"WHERE {' AND '.join(given)}" if given else ""
    return [*_read(store.read(f"{_SUMMARIES} {where} ORDER BY seq DESC LIMIT ?", *given.values(), limit), Summary)]


def ids(store: Store) -> set[str]:
    """Return the ids of all runs."""
    return {row["run_id"] for row in store.read("SELECT run_id FROM runs")}


def in_state(store: Store, state: State) -> list[Run]:
    """Read every run in one state, in the order of the queue."""
    return [*_read(store.read("SELECT * FROM runs WHERE state = ? ORDER BY queue_place", state), Run)]


def waiting_page(store: Store, limit: int, skip: int = 0) -> list[Summary]:
    """Read the waiting runs after the first `skip`: those with a deadline first, then those that wait longest."""
    order = f"wait_deadline_at IS NULL, wait_deadline_at, {_ASKED_AT}, seq"
    sql = f"{_SUMMARIES} WHERE state = ? ORDER BY {order} LIMIT ? OFFSET ?"
    return [*_read(store.read(sql, State.WAITING_USER, limit, skip), Summary)]


def waits_longest(store: Store) -> Summary | None:
    """Read the run whose question is the oldest open one."""
    sql = f"{_SUMMARIES} WHERE state = ? ORDER BY {_ASKED_AT}, seq LIMIT 1"
    return next(_read(store.read(sql, State.WAITING_USER), Summary), None)


def waiting(store: Store) -> Iterator[Summary]:
    """Read the waiting runs, one by one, since there may be many."""
    return _read(store.stream(f"{_SUMMARIES} WHERE state = ?", State.WAITING_USER), Summary)


def processes(store: Store) -> dict[str, ProcessNote]:
    """Read the recorded processes that may still exist, by run."""
    rows = store.read("SELECT run_id, process_json FROM runs WHERE process_json IS NOT NULL")
    return {row["run_id"]: decode(row["process_json"], ProcessNote) for row in rows}


def at_terminals(store: Store) -> dict[str, str]:
    """Read the handles of the running runs whose turn is run by `turngate resume`, by run."""
    sql = "SELECT run_id, handle FROM runs WHERE state = ? AND json_extract(process_json, '$.terminal')"
    return dict(map(tuple, store.read(sql, State.RUNNING)))


def is_wanted(store: Store, run_id: str) -> bool:
    """Whether a run is running and was not asked to cancel."""
    sql = "SELECT 1 FROM runs WHERE run_id = ? AND state = ? AND NOT cancel_requested"
    return bool(store.read(sql, run_id, State.RUNNING))


def unfinished_in(store: Store, workspace: Path) -> str | None:
    """Return the id of the unfinished run that works in a workspace; None if there is none."""
    states = ", ".join("?" * len(ENDED))
    sql = f"SELECT run_id FROM runs WHERE workspace = ? AND state NOT IN ({states})"  # noqa: S608 - our own words
    rows = store.read(sql, str(workspace), *ENDED)
    return next((row["run_id"] for row in rows), None)


def counts(store: Store) -> dict[State, int]:
    """Count the runs in each state."""
    known = dict(map(tuple, store.read("SELECT state, count(*) FROM runs GROUP BY state")))
    return {state: known.get(state, 0) for state in State}


def question(store: Store, interaction_id: str) -> StoredQuestion | None:
    """Read a question."""
    return next(_read(store.read(_QUESTION, interaction_id), StoredQuestion), None)


def question_in(connection: sqlite3.Connection, interaction_id: str) -> StoredQuestion:
    """Read a question inside a transaction; KeyError if there is none."""
    return _only(connection.execute(_QUESTION, (interaction_id,)), StoredQuestion, interaction_id)


def is_answered(connection: sqlite3.Connection, run_id: str, interaction_id: str) -> bool:
    """Whether a question of a run has a reply."""
    sql = "SELECT 1 FROM interactions WHERE run_id = ? AND interaction_id = ? AND response IS NOT NULL"
    return connection.execute(sql, (run_id, interaction_id)).fetchone() is not None


def last_answer(store: Store, run_id: str, before_turn: int) -> str | None:
    """Return the last reply to a question of a run's turn before `before_turn`, which is what that turn is about."""
    rows = store.read(_LAST_ANSWERED, run_id, before_turn - 1)
    return next((row["response"] for row in rows), None)


def last_answered(connection: sqlite3.Connection, run_id: str, before_turn: int) -> StoredQuestion:
    """Read the question that `last_answer` is about, inside a transaction; KeyError if there is none."""
    return _only(connection.execute(_LAST_ANSWERED, (run_id, before_turn - 1)), StoredQuestion, run_id)


def unsent_reply(store: Store, run_id: str) -> UnsentReply | None:
    """Read the reply of a run that no process got; None if there is none."""
    sql = "SELECT unsent_json FROM interactions WHERE run_id = ? AND unsent_json IS NOT NULL"
    rows = store.read(sql, run_id)
    return next((decode(row["unsent_json"], UnsentReply) for row in rows), None)


def turns(store: Store, run_id: str, up_to: float = math.inf, limit: int = -1) -> list[StoredTurn]:
    """Read the last turns of a run up to the turn `up_to`, in order."""
    sql = "SELECT * FROM turns WHERE run_id = ? AND turn_index <= ? ORDER BY turn_index DESC LIMIT ?"
    return [*_read(store.read(sql, run_id, up_to, limit), StoredTurn)][::-1]


def questions(store: Store, run_id: str, turn_index: int) -> list[StoredQuestion]:
    """Read the questions of a turn."""
    sql = "SELECT * FROM interactions WHERE run_id = ? AND turn_index = ?"
    return [*_read(store.read(sql, run_id, turn_index), StoredQuestion)]


def messages(store: Store, run_id: str, turn_index: int, limit: int) -> list[StoredEvent]:
    """Read the last events of a turn that are texts, questions or replies, in order."""
    values = (run_id, run_id, turn_index, run_id, turn_index + 1, limit)
    return stored(store.read(_MESSAGES, *values))[::-1]


def events(store: Store, run_id: str, after: int = 0, limit: int = 100) -> list[StoredEvent]:
    """Read events of a run that are later than `after`."""
    sql = "SELECT * FROM events WHERE run_id = ? AND id > ? ORDER BY id LIMIT ?"
    return stored(store.read(sql, run_id, after, limit))


def latest_events(store: Store, run_id: str, before: int | None, limit: int) -> list[StoredEvent]:
    """Read the last events of a run before the event `before` (None: the latest events), in order."""
    sql = "SELECT * FROM events WHERE run_id = ? AND id < coalesce(?, id + 1) ORDER BY id DESC LIMIT ?"
    return stored(store.read(sql, run_id, before, limit))[::-1]


def last_event_id(store: Store) -> int:
    """Return the id of the last event of any run; 0 if there is none."""
    last: int = store.read("SELECT coalesce(max(id), 0) FROM events")[0][0]
    return last


def progress(store: Store, run_id: str | None, after: int) -> tuple[int, bool]:
    """Return the id of the last event, and whether any event after `after` is news.

    For followers of a run, all its events are news. Without a run, only state changes are.
    """
    if run_id is None:
        sql = "SELECT max(id), max(type = 'state') FROM events WHERE id > ?"
        ((last, news),) = store.read(sql, after)
    else:
        sql = "SELECT max(id), count(*) FROM events WHERE run_id = ? AND id > ?"
        ((last, news),) = store.read(sql, run_id, after)
    return last or after, bool(news)


def prompts(store: Store, run_ids: Sequence[str], length: int) -> dict[str, str]:
    """Read the start of the first prompts of runs, by run."""
    places = ", ".join("?" * len(run_ids))
    sql = f"SELECT run_id, substr(json_extract(request_json, '$.prompt'), 1, ?) FROM runs WHERE run_id IN ({places})"  # noqa: S608 - no value is in it
    return dict(map(tuple, store.read(sql, length, *run_ids)))


def as_json(value: Any) -> str | None:
    """Convert a value to JSON; None stays None, which is SQL's null."""
    return None if value is None else json.dumps(msgspec.to_builtins(value) if isinstance(value, Struct) else value)


_COLUMNS = {
    field.name: f"{field.encode_name}_json" if field.name in _JSON else field.encode_name
    for field in structs.fields(Run)
}
_SUMMARIES = f"SELECT {', '.join(_COLUMNS[name] for name in Summary.__struct_fields__)} FROM runs"  # noqa: S608 - our own names


def _columns(values: dict[str, Any]) -> dict[str, Any]:
    """Convert values to their form in the store: JSON as text, paths as text."""
    return {
        _COLUMNS.get(name, name): as_json(value) if name in _JSON else str(value) if isinstance(value, Path) else value
        for name, value in values.items()
    }


def _read(rows: Iterable[sqlite3.Row], kind: type[Row]) -> Iterator[Row]:
    for row in rows:
        values = {
            name.removesuffix("_json"): json.loads(value) if name.endswith("_json") and value else value
            for name, value in zip(row.keys(), row, strict=True)
        }
        # not strict, since the store's booleans are 0 and 1
        yield convert(values, kind, strict=False, dec_hook=lambda path, text: path(text))


def _only(rows: Iterable[sqlite3.Row], kind: type[Row], key: str) -> Row:
    for row in _read(rows, kind):
        return row
    raise KeyError(key)


class Accepted(Struct, frozen=True, kw_only=True):
    """The answer to a command that a run has taken, which the store keeps for repeated requests."""

    run_id: str
    state: State
    turn_index: int
    links: dict[str, str]
    handle: str | UnsetType = UNSET
    interaction_id: str | UnsetType = UNSET
    cancel_requested: bool | UnsetType = UNSET


class IdempotentRequest:
    """A request that may have been made before; one without a key is always new."""

    def __init__(self, scope: str, key: IdempotencyKey | None) -> None:
        self._scope, self._key = scope, key

    def answer(self, connection: sqlite3.Connection) -> Accepted | None:
        """Return the earlier answer to the request; ApiError if the key was used with another body."""
        if self._key is None:
            return None
        row = connection.execute(
            "SELECT body_digest, answer_json FROM idempotency WHERE scope = ? AND key = ?",
            (self._scope, self._key.text),
        ).fetchone()
        if row is None:
            return None
        if row["body_digest"] != self._key.digest:
            hint = "use a new key for each new request"
            raise ApiError(
                "IDEMPOTENCY_KEY_REUSED", "this Idempotency-Key was already used with a different body", hint
            )
        return decode(row["answer_json"], Accepted)

    @staticmethod
    def forget(connection: sqlite3.Connection, run_id: str, turn_index: int) -> None:
        """Free the keys of requests that a run took after this turn."""
        sql = "DELETE FROM idempotency WHERE run_id = ? AND json_extract(answer_json, '$.turn_index') = ?"
        connection.execute(sql, (run_id, turn_index))

    def keep(self, connection: sqlite3.Connection, run_id: str, answer: Accepted) -> None:
        """Save the answer for repeated requests, with the run that it is about."""
        if self._key is not None:
            connection.execute(
                "INSERT INTO idempotency (scope, key, run_id, body_digest, answer_json) VALUES (?, ?, ?, ?, ?)",
                (self._scope, self._key.text, run_id, self._key.digest, json.dumps(msgspec.to_builtins(answer))),
            )
