"""A server that is killed: `python -m tests.reference.killed_server DATA PATH HOME CODE`.

CODE runs with `server`, `create(prompt, **more)`, `replied` and `die()` in scope.
"""

import os
import signal
import sys
from pathlib import Path

from tests.reference.commanded import created, replied
from turngate_reference.data_dir import DataDir
from turngate_reference.server.app import Server, ServerSettings


def main(data: str, path: str, home: str, code: str) -> None:
    """Open the server, and run the code that kills it."""
    env = {"PATH": f"{path}:/usr/bin:/bin", "HOME": home}
    server = Server(ServerSettings(DataDir(Path(data)), slots=1, env=env))
    server.start()

    def create(prompt: str, **more: object) -> object:
        return created(server, {"engine": "codex", "prompt": prompt, **more}).run_id

    def die() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    exec(code, {"server": server, "create": create, "replied": replied, "die": die})


if __name__ == "__main__":
    main(*sys.argv[1:])
