"""Sessions of Codex, and what they play."""

import sys
from pathlib import Path
from unittest.mock import patch

from tests.conform.orchestrators.catalogue import CORRECT
from turngate import load_contract
from turngate_probes.conform.calls import Started
from turngate_probes.conform.catalogue import Scenario, scenarios
from turngate_probes.conform.conform_report import ConformReport
from turngate_probes.conform.judge import Evidence, Ran
from turngate_probes.conform.plan import Conversation
from turngate_probes.conform.session import ConformSession
from turngate_probes.harness.interrupt import Interrupt
from turngate_probes.report.baseline import ExpectedBreach

CODEX, IFLOW = load_contract("codex", "0.169.0"), load_contract("iflow", "0.5.19")
IDLE = (sys.executable, "-c", "raise SystemExit(1)")
GOOD = (sys.executable, str(CORRECT["python"]))
TALKS = scenarios()["two-turns"]
BEGUN = Started(1, (), "", (), "pipe", 0.0, kind="turn")
RAN = Ran(Conversation("a", ("first", "second"), "amber"), 1, "", "", 0.0, ())
CLAUDE = load_contract("claude", "2.1.330")
# one process of Claude Code, which gets a message for each turn
PROCESS = """
import json, os, subprocess, sys
argv = ["claude", "--print", "--verbose", "--input-format", "stream-json", "--output-format", "stream-json"]
pipe, settings = subprocess.PIPE, os.environ
with subprocess.Popen(argv, cwd=settings["TURNGATE_WORKSPACE"], stdin=pipe, stdout=pipe) as engine:
    for name in ("TURNGATE_PROMPT", "TURNGATE_REPLY"):
        message = {"type": "user", "message": {"role": "user", "content": settings[name]}}
        engine.stdin.write(json.dumps(message).encode() + b"\\n")
        engine.stdin.flush()
        record = next(record for record in map(json.loads, engine.stdout) if record["type"] == "result")
        if record["is_error"]:
            sys.exit("the turn failed")
    engine.stdin.close()
print(record["result"])
"""


def conform(
    root: Path, command: tuple[str, ...], *names: str, expected: tuple[ExpectedBreach, ...] = ()
) -> ConformReport:
    """Run scenarios with Codex."""
    return ConformSession(command, (CODEX,), tuple(scenarios()[name] for name in names), root, 2, expected).run(
        Interrupt(), lambda _: None
    )


def played(root: Path, evidence: Evidence, *names: str, jobs: int = 1) -> list[str]:
    """Return the scenarios that a session plays, if each run gives the same evidence."""
    started = list[str]()

    def play(scenario: Scenario, *_: object, **__: object) -> Evidence:
        started.append(scenario.id)
        return evidence

    session = ConformSession(IDLE, (CODEX,), tuple(scenarios()[name] for name in names), root, jobs)
    with patch("turngate_probes.conform.session.play", play):
        session.run(Interrupt(), lambda _: None)
    return started
