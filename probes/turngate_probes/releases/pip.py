"""Runs pip with the user's settings for it, and explains its failures."""

import re
import sys
from pathlib import Path

from turngate import MachineError, Stop
from turngate_probes.releases.cache import MAKE_ROOM
from turngate_probes.releases.registry import run_manager, without_hosts

ONLY_WHEELS = "--only-binary=:all:"
NO_SUCH_RELEASE = "there is no such release for this platform"
_FLAGS = ("--disable-pip-version-check", "--no-input")
_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
_OTHER_VERSION = "choose another version, or pass an executable: ENGINE=/path/to/executable"

# pip's message, what is wrong, what to do about it
_CAUSES = (
    (
        "require a different python version|requires a different Python",
        f"the release does not support Python {_PYTHON}, which turngate runs on",
        "choose another version, or install turngate with a version of Python that the release supports",
    ),
    # an index that lists versions was reached; pip also reports "no match" for an unreachable index
    (r"from versions: (?!none\))", NO_SUCH_RELEASE, _OTHER_VERSION),
    (
        "Retrying|Connection|timed out|Temporary failure|Max retries|SSLError",
        "the package index cannot be reached",
        "check the network, and pip's proxy and index settings",
    ),
    ("No matching distribution|from versions:", NO_SUCH_RELEASE, _OTHER_VERSION),
    ("DO NOT MATCH THE HASHES", "the package's content does not match its checksum", "don't use the release"),
    (
        "in --require-hashes mode|In --require-hashes mode",
        "the pin has no checksum of a package that this platform needs",
        "pin the release on this platform, or pass an executable: ENGINE=/path/to/executable",
    ),
    ("No space left|Errno 28", "the disk is full", MAKE_ROOM),
    ("No module named pip", "this Python has no pip", "install pip, or pass an executable: ENGINE=/path/to/executable"),
)


def pip(args: tuple[str, ...], cwd: Path, stop: Stop | None = None, python: Path | None = None) -> str:
    """Run pip in `cwd` for the environment of `python` (None: turngate's), and return its standard output.

    MachineError says why it failed.
    """
    into = ("--python", str(python)) if python else ()
    argv = (sys.executable, "-m", "pip", *into, *args, *_FLAGS)
    exit_code, stdout, stderr = run_manager("pip", argv, args[0], cwd, stop)
    if exit_code == 0:
        return stdout
    for sign, what, hint in _CAUSES:
        if re.search(sign, stderr):
            raise MachineError(f"{what} (pip {args[0]})", hint)
    lines = [line for line in stderr.splitlines() if line.startswith("ERROR")] or stderr.splitlines()
    what = f"pip {args[0]} exited with {exit_code}: {without_hosts(lines[:3])}"
    raise MachineError(what, "see pip's message above")
