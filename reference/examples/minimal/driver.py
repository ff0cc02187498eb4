"""Has one conversation with a new server of app.py, for `turngate conform`."""

import atexit
import json
import os
import subprocess
import sys
import time
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

env, app = os.environ, Path(__file__).with_name("app.py")
places = {"PORT": "0", "DATA": str(Path.home() / f"data-{os.getpid()}"), "WORKSPACES": env["TURNGATE_WORKSPACE"]}
server = subprocess.Popen(
    [sys.executable, app], env=env | places, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
)
atexit.register(server.wait)
atexit.register(server.terminate)
address = server.stdout.readline().rpartition("/")[2].strip() if server.stdout else ""


def call(path: str, **body: object) -> Any:
    """Send a POST if there is a body, else a GET."""
    connection = HTTPConnection(address)
    method = "POST" if body else "GET"
    connection.request(method, path, json.dumps(body) if body else None, {"Content-Type": "application/json"})
    return json.load(connection.getresponse())


def settled(path: str, *moving: str) -> dict[str, Any]:
    """Wait while the run is in one of these states."""
    while (run := call(path))["state"] in moving:
        time.sleep(0.05)
    return dict(run)


files = [env[name] for word in ("PROMPT", "REPLY", "REPLY_2") if (name := f"TURNGATE_{word}_FILE") in env]
task, *replies = (Path(file).read_bytes().decode() for file in files)
asked = {"execution_mode": "interactive", "session_timeout_sec": int(env["TURNGATE_DEADLINE_SEC"]), "workspace": "."}
created = call("/v1/runs", engine=env["TURNGATE_ENGINE"], prompt=task, **asked)
if "links" not in created:
    sys.exit(f"{created}")
path = created["links"]["self"]
run = settled(path, "queued", "running")
for number, text in enumerate(replies, 1):
    if run["state"] == "waiting_user":
        question = call(path + "/interaction")["pending"]["interaction_id"]
        call(path + "/interaction/reply", interaction_id=question, response=text)
        if number == len(replies) and (seconds := env.get("TURNGATE_CANCEL_AFTER_SEC")):
            settled(path, "queued")
            time.sleep(float(seconds))
            call(path + "/cancel", confirmed=True)
        run = settled(path, "queued", "running")
if run["state"] != "succeeded":
    sys.exit(f"{run['state']}: {run['error'] or call(path + '/interaction')}")
print(json.dumps(run["final_data"], ensure_ascii=False))
