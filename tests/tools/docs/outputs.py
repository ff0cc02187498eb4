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

from turngate.files import default_cache

PLACE = re.compile(r"(?P<begin><!-- output: (?P<command>.+?) -->\n).*?(?P<end><!-- /output -->)", re.DOTALL)
# what differs from run to run: ids, ports, dates, durations, requests until an end, how many releases are published,
# where the cache is (a long path is shortened), and the lines about progress
VARYING = (
    (re.compile(r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"), "<id>"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:<port>"),
    (re.compile(r"\b\d{8}T\d{6}(?:\.\d+)?Z-\d+"), "<time>"),
    (re.compile(r"\b(?:\d+ (?:h|min) )?\d+(?:\.\d+)? (?:s|min)\b"), "<duration>"),
    (re.compile(r"\bof \d+ releases$"), "of <published> releases"),
    (re.compile(r"\b\d+ more requests"), "<several> more requests"),
    (re.compile(r"\(\d+ of \d+ parts done.*?\)"), "(<progress>)"),
    (re.compile(r"\((?:~|…)/\S*?(?=[^/\s]+/[^/\s]+/node_modules/)"), "(<cache>/"),
    (re.compile(r" {2,}"), "  "),
)
PROGRESS = re.compile(
    r"(?:.*; )?\S+: \d+ of (?:about )?\d+ turns?|\d+ of \d+ (?:parts|releases) done|\S+: installing from"
)


def unvarying(output: str) -> list[str]:
    """Return the lines of an output without what differs from run to run, sorted, since engines run side by side."""
    lines = [line for line in output.splitlines() if not PROGRESS.match(line)]
    for pattern, placeholder in VARYING:
        lines = [pattern.sub(placeholder, line) for line in lines]
    return sorted(lines)


def renewed(page: str, run: Callable[[str], str]) -> str:
    """Return a page with the output of `run` for the command of each comment."""
    return PLACE.sub(
        lambda place: f"{place['begin']}{_block(place['command'], run(place['command']))}{place['end']}", page
    )


def ran(command: str, folder: Path) -> str:
    """Return the output of a command in a folder, with `~` for the home directory; CalledProcessError if it fails.

    The cache has the installed engines, but no earlier results.
    """
    cache, engines = folder / "cache", default_cache() / "engines"
    cache.mkdir(exist_ok=True)
    engines.mkdir(parents=True, exist_ok=True)
    if not (cache / "engines").exists():
        (cache / "engines").symlink_to(engines)
    env = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "TURNGATE_CACHE_DIR": str(cache),
    }
    ended = subprocess.run(
        ("bash", "-c", command),
        cwd=folder,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
    )
    return ended.stdout.replace(str(cache), "~/.cache/turngate").replace(f"{Path.home()}/", "~/")


def _block(command: str, output: str) -> str:
    """Return the block with a command and its output, without the lines about progress."""
    lines = [line for line in output.rstrip().splitlines() if not PROGRESS.match(line)]
    return "\n".join(("```console", f"$ {command}", *lines, "```", ""))
