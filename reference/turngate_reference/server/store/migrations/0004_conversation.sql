-- Finds where the events of a turn begin, so that the page of a long run reads only the turns that it shows.
CREATE INDEX events_by_turn ON events (run_id, json_extract(data_json, '$.turn_index')) WHERE type = 'turn.started';
