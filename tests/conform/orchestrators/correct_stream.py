"""A correct orchestrator for Claude Code and Gemini CLI with stream-json: one process for each turn."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

SETTINGS = os.environ
LIMIT = float(SETTINGS["TURNGATE_DEADLINE_SEC"])
COMMANDS = {
    "claude": ["claude", "-p", "--output-format", "stream-json", "--verbose"],
    "gemini": ["gemini", "--output-format", "stream-json"],
}


def turn(text: str, session: str | None = None, deadline: float = LIMIT) -> tuple[str, str]:
    """Run a turn; return its session id and its text."""
    command = [*COMMANDS[SETTINGS["TURNGATE_ENGINE"]], *(["--resume", session] if session else [])]
    engine = subprocess.Popen(
        command,
        cwd=SETTINGS["TURNGATE_WORKSPACE"],
        env={**SETTINGS, "GEMINI_CLI_TRUST_WORKSPACE": "true"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        out, err = engine.communicate(text.encode(), timeout=deadline)
    except subprocess.TimeoutExpired:
        sys.exit("the engine hangs")
    finally:
        with suppress(ProcessLookupError):
            os.killpg(engine.pid, signal.SIGKILL)
    records = [json.loads(line) for line in out.decode("utf-8-sig").split("\n") if line.startswith("{")]
    ends = [at for at, record in enumerate(records) if record["type"] == "result"]
    records = records[: ends[0] + 1] if ends else []
    results = [record for record in records if record["type"] == "result"]
    if engine.returncode != 0 or not results or results[-1].get("is_error") or results[-1].get("status") == "error":
        sys.exit(f"the turn failed: {err.decode()[-500:]}")
    started = [record for record in records if record["type"] == "init" or record.get("subtype") == "init"]
    ids = [record["session_id"] for record in started if "session_id" in record]
    if len(ids) != 1 or session not in (None, ids[0]):
        sys.exit("there is no session id, or another one")
    said = [record["content"] for record in records if record.get("role") == "assistant"]
    answer = results[-1].get("result") or "".join(said)
    if not answer.strip():
        sys.exit("there is no answer")
    return ids[0], answer


def main() -> None:
    """Run a conversation, and print its last answer."""
    session, answer = turn(Path(SETTINGS["TURNGATE_PROMPT_FILE"]).read_text("utf-8"))
    for name in ("TURNGATE_REPLY", "TURNGATE_REPLY_2"):
        if name in SETTINGS:
            session, answer = turn(SETTINGS[name], session, float(SETTINGS.get("TURNGATE_CANCEL_AFTER_SEC", LIMIT)))
    print(answer)


main()
