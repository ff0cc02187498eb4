"""A conversation with the reference server over HTTP. It resumes the session in a new process for each turn."""

import atexit
import json
import subprocess
from http.client import HTTPResponse
from os import environ as env
from os import getpid
from pathlib import Path
from urllib.request import Request, urlopen

options = ("--workspace-root", Path(env["TURNGATE_WORKSPACE"]).parent, "--data-dir", Path(env["HOME"], str(getpid())))
server = subprocess.Popen(["turngate", "serve", "--port=0", *options], stdout=subprocess.PIPE, text=True)
atexit.register(lambda: (server.terminate(), server.wait()))  # type: ignore[func-returns-value]
url = server.stdout.readline().split()[2]  # type: ignore[union-attr]
headers = {"Authorization": f"Bearer {(options[-1] / 'token').read_text().strip()}", "Content-Type": "application/json"}


def call(path: str, **body: object) -> HTTPResponse:
    return urlopen(Request(url + path, json.dumps(body).encode() if body else None, headers))  # type: ignore[no-any-return]


said = {"prompt": Path(env["TURNGATE_PROMPT_FILE"]).read_text("utf-8"), "workspace": env["TURNGATE_WORKSPACE"]}
asked = {"execution_mode": "interactive", "session_timeout_sec": int(env["TURNGATE_DEADLINE_SEC"])}
run = json.load(call("/v1/runs", engine=env["TURNGATE_ENGINE"], **said, **asked))["links"]["self"]
waiting = (line for line in call(run + "/events") if b'"state": "waiting_user"' in line)
for _, name in zip(waiting, ("TURNGATE_REPLY", "TURNGATE_REPLY_2"), strict=False):
    question = json.load(call(run + "/interaction"))["pending"]["interaction_id"]
    call(run + "/interaction/reply", interaction_id=question, response=env[name])
print(json.load(call(run))["final_data"]["answer"])  # null if the run failed
