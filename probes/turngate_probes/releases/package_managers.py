"""npm and pip, run without scripts and without chatter, their failures told apart."""

import os
import re
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from turngate.errors import EnvironmentFailed
from turngate.process import Ended, ProcessRequest, Stop, run
from turngate.sanitize import redact
from turngate_probes.releases.cache import MAKE_ROOM

TIMEOUT = 600.0  # seconds; the largest release is about 100 MB
_SHOWN_LINES = 6
_CHATTER = ("code ", "errno ", "syscall ", "path ", "at ", "A complete log of this run")

_NPM_FLAGS = (
    "--ignore-scripts",
    "--include=optional",  # the builds for each platform are optional dependencies
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
    # npm would wait 10 s and then a minute before it says that the registry is out of reach
    "--fetch-retry-mintimeout=1000",
    "--fetch-retry-maxtimeout=5000",
)
_PIP_FLAGS = ("--disable-pip-version-check", "--no-input")

_UNREACHABLE = (
    "EAI_AGAIN|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EPROTO|ERR_SOCKET_TIMEOUT|ETIMEDOUT|"
    "FETCH_ERROR|E429|E5..|CERT_.*|.*_CERT.*|ERR_TLS.*"
)

# npm's error codes, what is wrong, what to do about it
_NPM_CAUSES = (
    (
        _UNREACHABLE,
        "the package registry cannot be reached",
        "check the network, and npm's proxy and registry settings; or name an executable: ENGINE=/path/to/it",
    ),
    ("ETARGET|E404", "there is no such release", "ask for another version"),
    (
        "EINTEGRITY",
        "the package's content is not what was promised",
        "try 'npm cache verify'; if it happens again do not use the release, and tell its maintainers",
    ),
    ("ENOSPC|EDQUOT", "the disk is full", MAKE_ROOM),
    (
        "EACCES|EPERM|EROFS",
        "a folder cannot be written",
        "mend its permissions, or set TURNGATE_CACHE_DIR to another one",
    ),
    (
        "EBADPLATFORM|EBADENGINE",
        "the release does not support this platform",
        "probe it on a platform that it supports",
    ),
)

# what pip says, what is wrong, what to do about it
_NONE = ("there is no such release for this platform", "ask for another version, or install Node.js for what npm has")
_PIP_CAUSES = (
    # an index that lists versions was reached; where pip gave up reaching it, it says that nothing matches, too
    (r"from versions: (?!none\))", *_NONE),
    (
        "Retrying|Connection|timed out|Temporary failure|Max retries|SSLError",
        "the package index cannot be reached",
        "check the network, and pip's proxy and index settings",
    ),
    ("No matching distribution|from versions:", *_NONE),
    ("HASHES? .*MATCH|hash mismatch", "the package's content is not what was promised", "do not use the release"),
    ("No space left|Errno 28", "the disk is full", MAKE_ROOM),
    ("No module named pip", "this Python has no pip", "install pip, or Node.js, which brings npm"),
)


@dataclass
class NpmFailed(EnvironmentFailed):
    """npm exited badly; `code` is its error code, such as ETARGET, or empty when it named none."""

    code: str = ""

    def no_such_release(self) -> bool:
        """Whether the registry answered, but does not have what was asked for."""
        return self.code in ("ETARGET", "E404")


def npm(args: tuple[str, ...], cwd: Path, stop: Stop | None = None) -> str:
    """Run npm in `cwd`, with the settings that the user has made for it, and return its standard output.

    `stop` ends it early.

    Raises:
        NpmFailed: npm ran and failed.
        EnvironmentFailed: there is no npm, or it was not done after `TIMEOUT` seconds.
    """
    executable = shutil.which("npm")
    if executable is None:
        raise EnvironmentFailed(
            "npm was not found on PATH",
            "install Node.js 20 or newer, which brings npm; or name an executable: ENGINE=/path/to/it",
        )
    exit_code, stdout, stderr = _run("npm", (executable, *args, *_NPM_FLAGS), args[0], cwd, stop)
    if exit_code == 0:
        return stdout
    error_code = re.search(r"^npm (?:ERR!|error) code (\S+)", stderr, re.MULTILINE)
    code = error_code[1] if error_code else ""
    bare = (re.sub(r"^npm (?:ERR!|error)( network)? ?", "", line).strip() for line in stderr.splitlines())
    telling = [line for line in bare if line and not line.startswith(_CHATTER)]
    for codes, what, hint in _NPM_CAUSES:
        if re.fullmatch(codes, code):
            raise NpmFailed(f"{what} (npm {args[0]}: {code}: {_without_hosts(telling[:1])})", hint, code)
    what = f"npm {args[0]} exited with {exit_code}: {_without_hosts(telling[:_SHOWN_LINES])}"
    raise NpmFailed(what, "what npm says is above", code)


def pip(args: tuple[str, ...], cwd: Path, stop: Stop | None = None) -> str:
    """Run pip in `cwd`, with the settings that the user has made for it, and return its standard output."""
    exit_code, stdout, stderr = _run("pip", (sys.executable, "-m", "pip", *args, *_PIP_FLAGS), args[0], cwd, stop)
    if exit_code == 0:
        return stdout
    for sign, what, hint in _PIP_CAUSES:
        if re.search(sign, stderr):
            raise EnvironmentFailed(f"{what} (pip {args[0]})", hint)
    lines = [line for line in stderr.splitlines() if line.startswith("ERROR")] or stderr.splitlines()
    what = f"pip {args[0]} exited with {exit_code}: {_without_hosts(lines[:3])}"
    raise EnvironmentFailed(what, "what pip says is above")


def _run(name: str, argv: tuple[str, ...], command: str, cwd: Path, stop: Stop | None) -> tuple[int | None, str, str]:
    """Return exit code, standard output and error of a package manager that ended by itself."""
    outcome = run(ProcessRequest(argv, cwd, dict(os.environ), timeout=TIMEOUT), stop=stop)
    if outcome.ended is Ended.STOPPED:
        raise EnvironmentFailed(f"{name} {command} was interrupted", "run it again")
    if outcome.ended is not Ended.EXIT:
        hint = "the package registry may be slow or out of reach; try again"
        raise EnvironmentFailed(f"{name} {command} was not done after {outcome.seconds:.0f} s", hint)
    return outcome.exit_code, outcome.stdout.decode(errors="replace"), outcome.stderr.decode(errors="replace")


def _without_hosts(lines: list[str]) -> str:
    """Join lines, with no address of a registry, which may be a private one, in them."""
    text = "\n".join(lines)
    hosts = re.findall(r"https?://[^\s/]+|(?<=ENOTFOUND )\S+|(?<=EAI_AGAIN )\S+", text)
    return redact(text, dict.fromkeys(hosts, "<package-registry>"))
