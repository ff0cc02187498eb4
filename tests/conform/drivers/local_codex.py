"""A conversation with codex-local-sdk-python: each turn continues the thread of the first one."""

from os import environ as env
from pathlib import Path

from codex_local_sdk import CodexLocalClient  # type: ignore[import-not-found]

client = CodexLocalClient(codex_bin=env["TURNGATE_ENGINE_CODEX"], default_cwd=env["TURNGATE_WORKSPACE"])
limit = float(env["TURNGATE_DEADLINE_SEC"])
thread, turn = client.start_thread(Path(env["TURNGATE_PROMPT_FILE"]).read_text("utf-8"), timeout_seconds=limit)
for name in filter(env.get, ("TURNGATE_REPLY_FILE", "TURNGATE_REPLY_2_FILE")):
    turn = thread.continue_prompt(Path(env[name]).read_text("utf-8"), timeout_seconds=limit)
print(turn.final_message)
