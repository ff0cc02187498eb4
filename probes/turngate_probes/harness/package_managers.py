"""Runs package managers away from the folder that turngate is called in, whose files may be a stranger's.

npm and pip take settings, and Python even takes code, from the current folder and those above it. They run in a folder
of ours instead, with only the variables that they need, so that no file can send others anywhere. The user's own
settings count: those in the home folder, and the variables of each manager.
"""

import os
import re
import shutil
import sys
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path

from turngate import ProcessOutcome, ProcessRequest, Stop
from turngate.process.execution import run

PROJECT = "package.json"
# the nearest folder with this file is npm's project; without the flag, one above could claim it as its workspace
NPM_FLAGS = ("--no-workspaces",)

_PASSED = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TMPDIR|TEMP|TMP|(DY)?LD_LIBRARY_PATH"
    "|XDG_(CACHE|CONFIG|DATA)_HOME|XDG_CONFIG_DIRS"
    "|(HTTPS?|ALL|NO)_PROXY|SSL_CERT_(FILE|DIR)|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS|NODE_USE_.+|NETRC"
    "|NPM_CONFIG_.+|PIP_.+"
    # where programs that switch between versions of Node.js keep them
    "|(ASDF|FNM|MISE|NODENV|NVM|VOLTA)_((DATA_)?DIR|HOME|ROOT)|COREPACK_HOME",
    re.IGNORECASE,
)
_SETTINGS_FILES = ("npm_config_userconfig", "npm_config_globalconfig")
_NAMED = re.compile(r"\$\{([^}?]+)\??\}")
_LARGEST = 1 << 20  # bytes of a file of settings


def find_program(name: str) -> str | None:
    """Return the path of a program on PATH; folders that are relative to the current one don't count."""
    return shutil.which(name, path=_path())


def module(name: str, *args: str) -> tuple[str, ...]:
    """Return the command that runs a module of turngate's own Python, such as pip, and never one of a folder."""
    return (sys.executable, "-P", "-m", name, *args)


def run_away(
    argv: tuple[str, ...], timeout: float, stop: Stop | None = None, folder: Path | None = None
) -> ProcessOutcome:
    """Run a package manager in `folder`, which is ours (None: a new empty one), within `timeout` seconds.

    MachineError or UsageError: it can't be started.
    """
    with ExitStack() as stack:
        if folder is None:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="turngate-")))
            (folder / PROJECT).write_text("{}")
        return run(ProcessRequest(argv, folder, environment(), timeout=timeout), stop=stop)


def environment() -> dict[str, str]:
    """Return the variables that package managers need, and those that the user's own settings of npm name."""
    passed = {name: value for name, value in os.environ.items() if _PASSED.fullmatch(name)}
    named = {name: os.environ[name] for name in _named(passed) if name in os.environ}
    # Corepack would run the release of npm that a package.json above the folder names
    return {**named, **passed, "PATH": _path(), "COREPACK_ENABLE_PROJECT_SPEC": "0"}


def _path() -> str:
    folders = os.environ.get("PATH", os.defpath).split(os.pathsep)
    return os.pathsep.join(folder for folder in folders if Path(folder).is_absolute())


def _named(env: dict[str, str]) -> set[str]:
    """Return the variables that the user's own settings of npm name, such as NODE_AUTH_TOKEN."""
    chosen = [value for name, value in env.items() if name.lower() in _SETTINGS_FILES]
    names = set[str]()
    for path in (*chosen, "~/.npmrc"):
        file = Path(os.path.expanduser(path))  # noqa: PTH111 - without a home, it stays as it is
        if file.is_absolute():
            with suppress(OSError), file.open("rb") as opened:
                names |= set(_NAMED.findall(opened.read(_LARGEST).decode("utf-8", "replace")))
    return names
