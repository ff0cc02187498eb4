"""A conversation with agentsummons: each run resumes the session that the one before reported."""

import json
from os import environ as env
from pathlib import Path

import agentsummons  # type: ignore[import-not-found]

session = None
for name in filter(env.get, ("TURNGATE_PROMPT_FILE", "TURNGATE_REPLY_FILE", "TURNGATE_REPLY_2_FILE")):
    asked = {"prompt": Path(env[name]).read_text("utf-8"), "workdir": env["TURNGATE_WORKSPACE"], "resume": session}
    turn = agentsummons.run("claude-code", json_output=True, timeout=float(env["TURNGATE_DEADLINE_SEC"]), **asked)
    if turn["exit_code"] or turn.get("timed_out"):
        raise SystemExit(f"the turn failed: {turn}")
    result = json.loads(turn["stdout"])
    session = result["session_id"]
print(result["result"])
