"""A correct orchestrator for Codex: one process for each turn, in its own group, with a deadline."""

import json
import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

SETTINGS = os.environ
CODEX = ["codex", "exec", "--json", "--skip-git-repo-check"]
LIMIT = float(SETTINGS["TURNGATE_DEADLINE_SEC"])


def turn(text: str, session: str | None = None, deadline: float = LIMIT) -> tuple[str, str]:
    """Run a turn; return its session id and its text."""
    resume = ["resume", session] if session else []
    engine = subprocess.Popen(
        [*CODEX, *resume, "-"],
        cwd=SETTINGS["TURNGATE_WORKSPACE"],
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
        end(engine)
    records = [json.loads(line) for line in out.decode("utf-8-sig").split("\n") if line.startswith("{")]
    if engine.returncode != 0 or not any(record["type"] == "turn.completed" for record in records):
        sys.exit(f"the turn failed: {err.decode()[-500:]}")
    records = records[: [record["type"] for record in records].index("turn.completed")]
    ids = [record["thread_id"] for record in records if record["type"] == "thread.started" and "thread_id" in record]
    if len(ids) != 1 or session not in (None, ids[0]):
        sys.exit("there is no session id, or another one")
    items = [record["item"] for record in records if record["type"] == "item.completed"]
    texts = [item["text"] for item in items if item["type"] == "agent_message"]
    if not texts or not texts[-1]:
        sys.exit("there is no answer")
    return ids[0], texts[-1]


def end(engine: "subprocess.Popen[bytes]") -> None:
    """End the engine, with everything that it started."""
    with suppress(ProcessLookupError):
        os.killpg(engine.pid, signal.SIGKILL)


def main() -> None:
    """Run a conversation, and print its last answer."""
    session, answer = turn(Path(SETTINGS["TURNGATE_PROMPT_FILE"]).read_text("utf-8"))
    for name in ("TURNGATE_REPLY", "TURNGATE_REPLY_2"):
        if name in SETTINGS:
            session, answer = turn(SETTINGS[name], session, float(SETTINGS.get("TURNGATE_CANCEL_AFTER_SEC", LIMIT)))
    print(json.loads(answer)["final_data"]["answer"])


main()
