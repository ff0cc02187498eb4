"""A conversation with the reference server over HTTP. It resumes the session in a new process for each turn."""

import json
import os
import re
import subprocess
from pathlib import Path
from urllib.request import Request, urlopen

settings = os.environ
workspace = Path(settings["TURNGATE_WORKSPACE"])
command = ["turngate", "serve", "--port", "0", "--data-dir", f"{settings['HOME']}/{os.getpid()}"]
with subprocess.Popen(
    [*command, "--workspace-root", workspace.parent, "--verify", "off"], stdout=subprocess.PIPE, text=True
) as server:
    try:
        assert server.stdout
        url = next(match[0] for line in server.stdout if (match := re.search(r"http://[^\s/]+", line)))

        def call(path: str, **body: object) -> dict[str, object]:
            request = Request(
                url + path, json.dumps(body).encode() if body else None, {"Content-Type": "application/json"}
            )
            return dict(json.load(urlopen(request)))

        prompt, limit = (
            Path(settings["TURNGATE_PROMPT_FILE"]).read_text("utf-8"),
            float(settings["TURNGATE_DEADLINE_SEC"]),
        )
        asked = {"engine": settings["TURNGATE_ENGINE"], "prompt": prompt, "workspace": str(workspace)}
        run = f"/v1/runs/{call('/v1/runs', **asked, execution_mode='interactive', session_timeout_sec=limit)['run_id']}"
        replies = [settings[name] for name in ("TURNGATE_REPLY", "TURNGATE_REPLY_2") if name in settings]
        for line in urlopen(f"{url}{run}/events"):
            if b'"state": "waiting_user"' in line:
                question = call(f"{run}/interaction")["pending"]["interaction_id"]  # type: ignore[index]
                call(f"{run}/interaction/reply", interaction_id=question, response=replies.pop(0))
        ended = call(run)
        if ended["state"] != "succeeded":
            raise SystemExit(f"the run ended as {ended['state']}: {ended.get('error')}")
        print(json.dumps(ended["final_data"], ensure_ascii=False))
    finally:
        server.terminate()
