"""The turngate command in a separate process, with its own cache."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

REAL = "from turngate.cli import main; main()"
# the case of the later minute then runs in the same one
HURRIED = (
    "from turngate_probes.harness.driver import EngineDriver; EngineDriver.until_later_minute = lambda *_: None; "
    + REAL
)
CRASHING = (
    "from turngate_probes.clauses.checks import CHECKS, Check; from turngate_probes import clauses; "
    "CHECKS['help.surface'] = Check(('static',), lambda seen: 1 / 0); "
) + REAL


@dataclass(frozen=True, slots=True)
class Command:
    """Runs turngate with `folder` as its cache, home and working directory, `path` as PATH, and `env` added."""

    folder: Path
    path: str = "/usr/bin:/bin"
    env: tuple[tuple[str, str], ...] = ()

    def start(self, *args: str | Path, code: str = REAL) -> subprocess.Popen[str]:
        """Start the command; `code` is how it is entered."""
        env = {"PATH": self.path, "HOME": str(self.folder), "TURNGATE_CACHE_DIR": str(self.folder / "cache")}
        env |= {name: value for name, value in os.environ.items() if name.startswith("COVERAGE_")}
        env |= dict(self.env)
        return subprocess.Popen(
            (sys.executable, "-c", code, *map(str, args)),
            cwd=self.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, *args: str | Path, code: str = REAL) -> "CommandResult":
        """Run the command to its end."""
        process = self.start(*args, code=code)
        out, err = process.communicate(timeout=120)
        return CommandResult(process.returncode, out, err)


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str

    @property
    def report(self) -> Any:
        """The JSON on standard output."""
        return json.loads(self.out)

    def clauses(self) -> dict[str, str]:
        """Return the result of each clause of the only release in the JSON."""
        (release,) = self.report["releases"]
        return {clause["id"]: clause["result"] for clause in release["clauses"]}
