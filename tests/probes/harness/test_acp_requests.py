"""Asking an ACP agent what it can do."""

import json
import subprocess
import sys
from pathlib import Path

from tests.tables import each
from turngate_probes.harness.acp_requests import asking

AGENT = """
import json, sys
for line in sys.stdin:
    asked = json.loads(line)
    print("no JSON")
    print(json.dumps({"method": "session/update", "id": asked["id"]}))
    print(json.dumps({"id": asked["id"], "result": {"asked": asked["method"], "cwd": asked["params"].get("cwd")}}))
    sys.stdout.flush()
"""
REFUSES = AGENT.replace('"result": {', '"error": {')


@each(
    "agent, code, results",
    [
        (AGENT, 0, [{"asked": "initialize", "cwd": None}, {"asked": "session/new", "cwd": "/work"}]),
        (REFUSES, 1, []),
        ("", 1, []),
    ],
)
def test_an_agent_is_asked_one_thing_after_the_other(agent: str, code: int, results: list[object]) -> None:
    """Its answers are printed, and it is ended; what it sends besides says nothing, and a refusal ends it."""
    ran = subprocess.run(
        asking((sys.executable, "-c", agent), Path("/work")), capture_output=True, check=False, timeout=100
    )
    answered = [json.loads(line) for line in ran.stdout.splitlines()]
    assert (ran.returncode, [answer["result"] for answer in answered]) == (code, results)
    assert [answer["method"] for answer in answered] == ["initialize", "session/new"][: len(results)]
