-- What the server knows. One file, one server; `PRAGMA user_version` holds the version of this schema.
-- Columns that end in _json hold JSON; times are ISO 8601 in UTC.

CREATE TABLE runs (
    seq INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL UNIQUE,
    handle TEXT NOT NULL UNIQUE,
    run_directory TEXT NOT NULL,
    engine TEXT NOT NULL,
    engine_version TEXT,
    state TEXT NOT NULL CHECK (state IN ('queued', 'running', 'waiting_user', 'succeeded', 'failed', 'canceled')),
    queue_place INTEGER,                     -- first in, first out
    cancel_requested INTEGER NOT NULL DEFAULT 0,
    execution_mode TEXT NOT NULL,            -- these three stand in the request too
    model TEXT,
    session_timeout_sec INTEGER NOT NULL,
    workspace TEXT,                          -- resolved; NULL: the run has a directory of its own
    turn_index INTEGER NOT NULL DEFAULT 0,   -- the turn that runs or ran last; turns count from 1
    recovery_json TEXT,                      -- of turn 1: cwd and the variables that decide where sessions lie
    profile_json TEXT,                       -- EngineInteractiveProfile
    capability_json TEXT,                    -- EngineResumeCapability
    session_json TEXT,                       -- EngineSessionHandle
    process_json TEXT,                       -- `ProcessNote`: what runs now, or is kept
    pending_interaction_id TEXT,
    wait_deadline_at TEXT,
    error_json TEXT,
    created_at TEXT NOT NULL,
    updated_at TEXT NOT NULL,
    started_at TEXT,
    ended_at TEXT,
    request_json TEXT NOT NULL,              -- as it was accepted; large ones last, since columns are read in order
    final_data_json TEXT
) STRICT;

CREATE INDEX runs_by_state ON runs (state, queue_place);
CREATE INDEX runs_by_state_seq ON runs (state, seq);
CREATE INDEX runs_by_engine ON runs (engine, seq);
CREATE INDEX runs_with_process ON runs (seq) WHERE process_json IS NOT NULL;
CREATE UNIQUE INDEX one_unfinished_run_a_workspace ON runs (workspace)
    WHERE workspace IS NOT NULL AND state IN ('queued', 'running', 'waiting_user');

CREATE TABLE turns (
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    turn_index INTEGER NOT NULL,
    started_at TEXT NOT NULL,
    ended_at TEXT,
    seconds REAL,
    argv_json TEXT,                          -- without the prompt
    exit_code INTEGER,
    outcome TEXT CHECK (outcome IN ('final', 'ask_user', 'error')),
    failure_json TEXT,
    repair_level TEXT,
    PRIMARY KEY (run_id, turn_index)
) STRICT, WITHOUT ROWID;

CREATE TABLE interactions (
    interaction_id TEXT PRIMARY KEY,
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    turn_index INTEGER NOT NULL,
    question_json TEXT NOT NULL,             -- kind, prompt, options, required_fields, context
    request_id TEXT,                         -- of a sticky engine that asked before it acts
    asked_at TEXT NOT NULL,
    response TEXT,
    answered_at TEXT
) STRICT, WITHOUT ROWID;

CREATE INDEX interactions_by_run ON interactions (run_id, turn_index);

CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    type TEXT NOT NULL,
    data_json TEXT NOT NULL,
    at TEXT NOT NULL
) STRICT;

CREATE INDEX events_by_run ON events (run_id, id);

CREATE TABLE idempotency (
    scope TEXT NOT NULL,                     -- method and path
    key TEXT NOT NULL,
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    body_digest TEXT NOT NULL,
    answer_json TEXT NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;
