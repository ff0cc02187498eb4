-- What the engine reported beside the answer of each turn: a list of `Reported`.
ALTER TABLE turns ADD COLUMN reported_json TEXT NOT NULL DEFAULT '[]';
