"""Has one conversation through the fleet, for `turngate conform`: in a thread, beside the worker of a new host."""

import json
import os
import signal
import sys
import time
from pathlib import Path
from threading import Thread, Timer

from turngate_fleet.runs import Fleet, Run
from turngate_fleet.worker import work

from turngate import TurnInput

env, host, ended = os.environ, f"conform-{os.getpid()}", list[Run]()
files = [env[name] for word in ("PROMPT", "REPLY", "REPLY_2") if (name := f"TURNGATE_{word}_FILE") in env]
task, *replies = (Path(file).read_bytes().decode() for file in files)


def talk() -> None:
    """Have the conversation, then stop the worker."""
    fleet, deadline = Fleet(env["FLEET_DATABASE"]), float(env["TURNGATE_DEADLINE_SEC"])
    try:
        first = TurnInput(env["TURNGATE_ENGINE"], task, env["TURNGATE_WORKSPACE"], timeout=deadline)
        run = fleet.wait(fleet.start(first, host))
        for number, text in enumerate(replies, 2):
            fleet.reply(run, text)
            if number > len(replies) and (seconds := env.get("TURNGATE_CANCEL_AFTER_SEC")):
                while fleet.find(run.id).state == "queued":
                    time.sleep(0.1)
                Timer(float(seconds), fleet.cancel, [run._replace(turn=number)]).start()
            run = fleet.wait(run.id, run.turn)
        ended.append(run)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)


talking = Thread(target=talk)
talking.start()
work(env["FLEET_DATABASE"], host, 4, Path.home())
talking.join()
if not ended or ended[0].output is None or ended[0].error:
    sys.exit(f"{ended and (ended[0].state, ended[0].error)}")
print(json.dumps(ended[0].output.result.final_data, ensure_ascii=False))
