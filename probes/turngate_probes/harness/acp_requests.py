"""Asks an ACP agent what it can do, and what a new session offers, without a turn.

A program of its own asks, so that the agent ends with it, within the limits of any command: it sends each request after
the answer to the one before, and prints the answers, since an agent may exit at the end of its input.
"""

import json
import sys
from collections.abc import Sequence
from pathlib import Path

STEP = "acp"
METHODS = ("initialize", "session/new")
_LIMIT = 60  # seconds
_PROGRAM = """
import json, subprocess, sys, threading
requests, limit, command = json.loads(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]
agent = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
timer = threading.Timer(limit, agent.kill)
timer.daemon = True
timer.start()

def answer(number):
    while line := agent.stdout.readline(2**24):
        try:
            message = json.loads(line)
        except ValueError:
            continue
        if isinstance(message, dict) and message.get("id") == number and "method" not in message:
            return message.get("result")

well = True
for number, (method, params) in enumerate(requests):
    request = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
    agent.stdin.write(json.dumps(request).encode() + b"\\n")
    agent.stdin.flush()
    result = answer(number)
    if result is None:
        well = False
        break
    print(json.dumps({"method": method, "result": result}))
timer.cancel()
agent.kill()
agent.wait()
sys.exit(0 if well else 1)
"""


def asking(command: Sequence[str], cwd: Path) -> tuple[str, ...]:
    """Return a command that asks the agent that another one starts."""
    initialize = {"protocolVersion": 1, "clientCapabilities": {"fs": {"readTextFile": False, "writeTextFile": False}}}
    asked = [*zip(METHODS, (initialize, {"cwd": str(cwd), "mcpServers": []}), strict=True)]
    return (sys.executable, "-I", "-S", "-c", _PROGRAM, json.dumps(asked), str(_LIMIT), *command)
