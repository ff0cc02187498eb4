"""Command outputs on pages: each is between two comments, and the first one names the command.

<!-- output: turngate probe codex@0.169.0 -->
<!-- /output -->
"""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

PLACE = re.compile(r"(?P<begin><!-- output: (?P<command>.+?) -->\n).*?(?P<end><!-- /output -->)", re.DOTALL)


def renewed(page: str, run: Callable[[str], str]) -> str:
    """Return a page with the output of `run` for the command of each comment."""
    return PLACE.sub(
        lambda place: f"{place['begin']}{_block(place['command'], run(place['command']))}{place['end']}", page
    )


def ran(command: str, folder: Path) -> str:
    """Return the output of a command in a folder, with `~` for the home directory; CalledProcessError if it fails."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    ended = subprocess.run(
        ("bash", "-c", command),
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return ended.stdout.replace(f"{Path.home()}/", "~/")


def _block(command: str, output: str) -> str:
    return f"```console\n$ {command}\n{output.rstrip()}\n```\n"
