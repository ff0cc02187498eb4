"""npm, run without scripts and without chatter, its failures told apart."""

import os
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

from turngate.errors import EnvironmentFailed
from turngate.process import Ended, ProcessOutcome, ProcessRequest, Stop, run
from turngate.sanitize import redact

TIMEOUT = 600.0  # seconds; the largest release is about 100 MB
_SHOWN_LINES = 6
_CHATTER = ("code ", "errno ", "syscall ", "path ", "at ", "A complete log of this run")

_FLAGS = (
    "--ignore-scripts",
    "--include=optional",  # the builds for each platform are optional dependencies
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
    # npm would wait 10 s and then a minute before it says that the registry is out of reach
    "--fetch-retry-mintimeout=1000",
    "--fetch-retry-maxtimeout=5000",
)

_UNREACHABLE = (
    "EAI_AGAIN|ECONNREFUSED|ECONNRESET|EHOSTUNREACH|ENETUNREACH|ENOTFOUND|EPROTO|ERR_SOCKET_TIMEOUT|ETIMEDOUT|"
    "FETCH_ERROR|E429|E5..|CERT_.*|.*_CERT.*|ERR_TLS.*"
)

# npm's error codes, what is wrong, what to do about it
_CAUSES = (
    (
        _UNREACHABLE,
        "the package registry cannot be reached",
        "check the network, and npm's proxy and registry settings; or name an executable: ENGINE=/path/to/it",
    ),
    (
        "ETARGET|E404",
        "there is no such release",
        "ask for another version",
    ),
    (
        "EINTEGRITY",
        "the package's content is not what was promised",
        "try 'npm cache verify'; if it happens again do not use the release, and tell its maintainers",
    ),
    (
        "ENOSPC|EDQUOT",
        "the disk is full",
        "make room, or set TURNGATE_CACHE_DIR to a folder on another disk",
    ),
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


@dataclass
class NpmFailed(EnvironmentFailed):
    """npm exited badly; `code` is its error code, such as ETARGET, or empty when it named none."""

    code: str = ""

    def no_such_release(self) -> bool:
        """Return whether the registry answered, but does not have what was asked for."""
        return self.code in ("ETARGET", "E404")


def npm(args: tuple[str, ...], cwd: Path, stop: Stop | None = None) -> str:
    """Run npm in `cwd`, with the settings that the user has made for it, and return its standard output.

    `stop` ends it early.

    Raises:
        NpmFailed: npm ran and failed, or was not done after `TIMEOUT` seconds.
        EnvironmentFailed: there is no npm.
    """
    executable = shutil.which("npm")
    if executable is None:
        raise EnvironmentFailed(
            "npm was not found on PATH",
            "install Node.js 20 or newer, which brings npm; or name an executable: ENGINE=/path/to/it",
        )
    outcome = run(ProcessRequest((executable, *args, *_FLAGS), cwd, dict(os.environ), timeout=TIMEOUT), stop=stop)
    if outcome.ended is not Ended.EXIT or outcome.exit_code != 0:
        raise _failure(args[0], outcome)
    return outcome.stdout.decode(errors="replace")


def _failure(command: str, outcome: ProcessOutcome) -> NpmFailed:
    if outcome.ended is Ended.STOPPED:
        return NpmFailed(f"npm {command} was interrupted", "run it again")
    if outcome.ended is not Ended.EXIT:
        hint = "the package registry may be slow or out of reach; try again"
        return NpmFailed(f"npm {command} was not done after {outcome.seconds:.0f} s", hint)
    output = outcome.stderr.decode(errors="replace")
    found = re.search(r"^npm (?:ERR!|error) code (\S+)", output, re.MULTILINE)
    code = found[1] if found else ""
    for codes, what, hint in _CAUSES:
        if re.fullmatch(codes, code):
            return NpmFailed(f"{what} (npm {command}: {code}: {excerpt(output, lines=1)})", hint, code)
    what = f"npm {command} exited with {outcome.exit_code}: {excerpt(output, lines=_SHOWN_LINES)}"
    return NpmFailed(what, "what npm says is above", code)


def excerpt(output: str, lines: int) -> str:
    """Return the first telling lines of npm's standard error, with no address of a registry in them."""
    bare = (re.sub(r"^npm (?:ERR!|error)( network)? ?", "", line).strip() for line in output.splitlines())
    text = "\n".join([each for each in bare if each and not each.startswith(_CHATTER)][:lines])
    hosts = re.findall(r"https?://[^\s/]+|(?<=ENOTFOUND )\S+|(?<=EAI_AGAIN )\S+", text)
    return redact(text, dict.fromkeys(hosts, "<package-registry>"))
