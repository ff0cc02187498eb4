"""A fake registry of fake codex releases, and the command that probes them."""

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.executables import HEADLESS
from tests.probes import fake_npm
from turngate import cli
from turngate_probes.matrix import command

VERSIONS = ("0.160.0", "0.161.0", "0.162.0-beta", "0.162.0", "0.163.0")


@dataclass
class Shop:
    """The fake registry in `folder`, and the stderr of the last command."""

    folder: Path
    capsys: pytest.CaptureFixture[str]
    err: str = ""

    def publish(self, *versions: str) -> None:
        """Publish these versions."""
        (self.folder / "published.json").write_text(json.dumps(versions))

    def faults(self, version: str, *faults: str) -> None:
        """Make this version of the engine have these faults."""
        (self.folder / f"faults-{version}").write_text(" ".join(faults))

    def fails(self, command: str, code: str) -> None:
        """Make an npm command fail with this npm error code."""
        (self.folder / f"fail-{command}").write_text(f"npm error code {code}\nnpm error the reason itself")

    def mended(self, command: str) -> None:
        """Make an npm command work again."""
        (self.folder / f"fail-{command}").unlink()

    def installed(self) -> list[str]:
        """Return one entry for each npm install, in order."""
        calls = [json.loads(line) for line in (self.folder / "calls").read_text().splitlines()]
        return [call[0] for call in calls if call[0] == "install"]

    def root(self, version: str) -> Path:
        """Return the path of a release in the cache."""
        return self.folder / "cache/engines/codex" / version

    def run(self, *args: str | Path) -> tuple[int, Any]:
        """Run the command with `--json`; return the exit code, and the report or None."""
        code = cli.run([*map(str, args), "--json"])
        said = self.capsys.readouterr()
        self.err = said.err
        return code, json.loads(said.out) if said.out else None

    def matrix(self, versions: str, *args: str | Path) -> tuple[int, Any]:
        """Run a matrix, by default at level static, with results in `folder/results`."""
        usual = ("--level", "static") if "--level" not in args else ()
        where = ("--results", self.folder / "results") if "--results" not in args else ()
        return self.run("matrix", "codex", "--versions", versions, *usual, *where, *args)


def verdicts(report: Any) -> dict[str, str]:
    """Return the verdict of each version."""
    return {release["version"]: release["verdict"] for release in report["releases"]}


@pytest.fixture(name="shop")
def _shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Shop:
    """A registry with the fake npm as the only program on PATH, and a separate cache."""
    program = tmp_path / "bin" / "npm"
    program.parent.mkdir()
    program.write_text(f"#!{sys.executable} -IS\n{Path(fake_npm.__file__).read_text()}")
    program.chmod(0o755)
    (tmp_path / "engine").write_text(HEADLESS)
    (tmp_path / "without").write_text("")
    (tmp_path / "calls").write_text("")
    # what the history knows of real releases says nothing about these
    monkeypatch.setattr(command, "known_answers", lambda *_: {})
    monkeypatch.setenv("PATH", str(program.parent))
    monkeypatch.setenv("NPM_CONFIG_REGISTRY", str(tmp_path))
    monkeypatch.setenv("TURNGATE_CACHE_DIR", str(tmp_path / "cache"))
    shop = Shop(tmp_path, capsys)
    shop.publish(*VERSIONS)
    return shop
