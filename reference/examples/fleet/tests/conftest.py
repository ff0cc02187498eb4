"""A PostgreSQL for the tests, and workers of several hosts, each with a home of its own."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from dbos import DBOS
from turngate_fleet.postgres import postgres
from turngate_fleet.runs import Fleet

# notes its prompt in a file of its own before it acts, so that the files are the record of all turns
ENGINE = """#!/bin/sh
[ "$1" = --version ] && echo "codex-cli 0.169.0" && exit
call=$(mktemp "$HOME/calls/XXXXXXXX") && cat > "$call" && mv "$call" "$call.call"
exec "{real}" "$@" < "$call.call"
"""


@pytest.fixture(name="database", scope="session")
def _database() -> Iterator[str]:
    """The address of a fresh database."""
    home = Path(tempfile.mkdtemp())
    home.chmod(0o711)  # PostgreSQL runs as another user if the tests run as root
    try:
        with postgres(home) as url:
            DBOS.migrate(url)
            yield url
    finally:
        shutil.rmtree(home)


class Host:
    """A host: a home with a simulated codex that records its calls, and the process of its worker."""

    def __init__(self, name: str, home: Path, database: str, engine: Path) -> None:
        self.name, self.home = name, home
        (home / "calls").mkdir(parents=True)
        (home / "bin").mkdir()
        (home / "bin/codex").write_text(ENGINE.format(real=engine))
        (home / "bin/codex").chmod(0o755)
        self._env = os.environ | {
            "HOME": str(home),
            "PATH": f"{home / 'bin'}:{os.environ['PATH']}",
            "FLEET_HOME": str(home),
            "FLEET_DATABASE": database,
        }
        self.worker: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the worker."""
        self.worker = subprocess.Popen(self.command("worker", self.name), env=self._env)

    def run(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command of the example to its end."""
        command = self.command(*words)
        return subprocess.run(command, env=self._env, capture_output=True, text=True, check=False, timeout=120)

    def kill(self) -> None:
        """Kill the worker at once."""
        assert self.worker
        self.worker.kill()
        self.worker.wait()

    def stop(self) -> None:
        """Stop the worker if it runs."""
        if self.worker and self.worker.poll() is None:
            self.worker.terminate()
            self.worker.wait()

    def calls(self) -> list[str]:
        """Return the prompts that the engine got, in no order."""
        return [file.read_text("utf-8") for file in (self.home / "calls").glob("*.call")]

    @staticmethod
    def command(*words: str) -> list[str]:
        """Return the argv of a command of the example."""
        return [sys.executable, "-m", "turngate_fleet", *words]


@pytest.fixture(name="fleet")
def _fleet(database: str) -> Fleet:
    return Fleet(database)


@pytest.fixture(name="host")
def _host(database: str, tmp_path: Path) -> Iterator[Callable[[str], Host]]:
    """Make hosts; their names are unique, since the tests share a database."""
    engine = tmp_path / "engine"
    turngate = Path(sys.executable).with_name("turngate")
    subprocess.run([turngate, "simulate", "codex@0.169.0", "--install", engine], check=True, capture_output=True)
    hosts: list[Host] = []

    def make(name: str) -> Host:
        hosts.append(Host(f"{name}-{tmp_path.name}", tmp_path / name, database, engine / "codex"))
        return hosts[-1]

    yield make
    for made in hosts:
        made.stop()
