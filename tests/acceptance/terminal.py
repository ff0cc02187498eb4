"""`turngate` at a terminal whose only engine is a real one, in a sandbox with a stub model."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from tests.probes import engines
from turngate.contract.engine_contract import EngineContract
from turngate.files import default_cache
from turngate_probes.harness.sandbox import Sandbox, sandbox
from turngate_probes.stub_model import StubRule, Text


class Terminal(Struct, frozen=True):
    """A terminal in the workspace of a sandbox; `folder` has turngate's cache and data."""

    box: Sandbox
    contract: EngineContract
    folder: Path
    env: dict[str, str]

    def turngate(self, answer: Text, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command while the model gives this answer."""
        self.box.backend.script(StubRule(answer))
        command = (str(Path(sys.executable).with_name("turngate")), *words)
        return subprocess.run(command, env=self.env, cwd=self.box.work, capture_output=True, text=True, check=False)

    def start(self, answer: Text, *words: str) -> subprocess.CompletedProcess[str]:
        """Start a conversation; the handle record is on stdout."""
        model = ("--model", self.contract.hermetic.model)
        return self.turngate(answer, "start", self.contract.engine, *model, "--json", *self.data, *words, "Paint it")

    @property
    def data(self) -> tuple[str, str]:
        """The option that names the data directory."""
        return "--data-dir", str(self.folder / "data")


@contextmanager
def terminal(engine: str, folder: Path) -> Iterator[Terminal]:
    """Open a terminal with the pinned release of an engine."""
    contract, real = engines.pinned_release(engine)
    with sandbox(contract.hermetic, default_cache() / "sandboxes", f"terminal-{engine}", keep=False) as box:
        path = box.root / "path"
        path.mkdir()
        (path / contract.executable).symlink_to(real)
        env = box.env(contract.hermetic, box.work)
        env |= {"PATH": f"{path}:{env['PATH']}", "TURNGATE_CACHE_DIR": str(folder / "cache")}
        yield Terminal(box, contract, folder, env)
