"""A conversation with the reference server over HTTP. It resumes the session in a new process for each turn."""

import atexit
import json
import subprocess
from http.client import HTTPResponse
from os import environ, getpid
from pathlib import Path
from urllib.request import Request, urlopen

data = Path(environ["HOME"], str(getpid()))
options = (f"--workspace-root={Path(environ['TURNGATE_WORKSPACE']).parent}", f"--data-dir={data}")
server = subprocess.Popen(["turngate", "serve", "--port=0", *options], stdout=subprocess.PIPE, text=True)
atexit.register(lambda: (server.terminate(), server.wait()))  # type: ignore[func-returns-value]
url = server.stdout.readline().split()[2]  # type: ignore[union-attr]
headers = {"Authorization": f"Bearer {(data / 'token').read_text().strip()}", "Content-Type": "application/json"}


def send(path: str, **body: object) -> HTTPResponse:
    answer: HTTPResponse = urlopen(Request(url + path, json.dumps(body).encode() if body else None, headers))
    return answer


def call(path: str, **body: object) -> dict[str, dict[str, str]]:
    return dict(json.load(send(path, **body)))


said = {"prompt": Path(environ["TURNGATE_PROMPT_FILE"]).read_text("utf-8"), "workspace": environ["TURNGATE_WORKSPACE"]}
asked = {"execution_mode": "interactive", "session_timeout_sec": int(environ["TURNGATE_DEADLINE_SEC"])}
run = call("/v1/runs", engine=environ["TURNGATE_ENGINE"], **said, **asked)["links"]["self"]
waiting = (line for line in send(run + "/events") if b'"state": "waiting_user"' in line)
for _, name in zip(waiting, ("TURNGATE_REPLY", "TURNGATE_REPLY_2"), strict=False):
    question = call(run + "/interaction")["pending"]["interaction_id"]
    call(run + "/interaction/reply", interaction_id=question, response=environ[name])
print(call(run)["final_data"]["answer"])  # null if the run failed
