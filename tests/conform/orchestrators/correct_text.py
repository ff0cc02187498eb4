"""A correct orchestrator for Codex without --json, whose session id is on stderr."""

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

SETTINGS = os.environ
CODEX = ["codex", "exec", "--skip-git-repo-check"]
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
    said, told = out.decode(), err.decode()
    if engine.returncode != 0 or "\ntokens used\n" not in told:
        sys.exit(f"the turn failed: {told[-500:]}")
    ids = re.findall(r"^session id: (\S+)$", told.partition("\n--------\nuser\n")[0], re.MULTILINE)
    if len(ids) != 1 or session not in (None, ids[0]):
        sys.exit("there is no session id, or another one")
    if not said.strip():
        sys.exit("there is no answer")
    return ids[0], said.strip()


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
    print(answer)


main()
