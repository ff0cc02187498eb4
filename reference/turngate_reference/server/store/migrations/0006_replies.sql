-- Which release ran each turn, what a run had as its result before it was continued, and replies that no process got.
ALTER TABLE turns ADD COLUMN engine_version TEXT;
ALTER TABLE turns ADD COLUMN final_data_json TEXT;   -- of the run after this turn, if the run was continued since
ALTER TABLE interactions ADD COLUMN unsent_json TEXT; -- `UnsentReply`: the last reply, if no process got it

UPDATE turns SET engine_version = (SELECT engine_version FROM runs WHERE runs.run_id = turns.run_id)
    WHERE turn_index = 1;
