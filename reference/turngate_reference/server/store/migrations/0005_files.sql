-- What a run changed in the directory in which it works.
CREATE TABLE files (
    run_id TEXT NOT NULL REFERENCES runs (run_id),
    path TEXT NOT NULL,                      -- relative to that directory, with slashes
    change TEXT NOT NULL CHECK (change IN ('added', 'modified', 'deleted')),
    turn_index INTEGER NOT NULL,             -- the turn that changed it last
    size INTEGER NOT NULL,                   -- in bytes, after that turn
    earlier_text BLOB,                       -- the text that it had before the run; NULL: none, or not kept
    PRIMARY KEY (run_id, path)
) STRICT, WITHOUT ROWID;

ALTER TABLE turns ADD COLUMN files_gap TEXT; -- why changes of the turn may be missing
