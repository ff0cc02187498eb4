"""Shell completion, tested through the protocol that shells use, with the lines of docs/completion.md."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.command import REAL
from turngate.contract import load
from turngate.contract.load import catalogue


def completed(words: str, folder: Path, code: str = REAL, **env: str) -> list[str]:
    """Return the completions of the last word, as bash requests them."""
    env = {
        **os.environ,
        "TURNGATE_CACHE_DIR": str(folder),
        "_TURNGATE_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
        **env,
    }
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert not done.stderr
    return [line.removeprefix("plain,") for line in done.stdout.split()]


@pytest.fixture(name="cache")
def _cache(tmp_path: Path) -> Path:
    """A cache with two releases of codex and one, from PyPI, of qwen, and other files that installing leaves there."""
    for name in ("0.169.0", "0.170.0", ".npm-cache", "pypi-0.1.0"):
        (tmp_path / "engines" / "codex" / name).mkdir(parents=True)
    (tmp_path / "engines" / "qwen" / "pypi-0.1.0").mkdir(parents=True)
    (tmp_path / "engines" / "codex" / "0.169.0.lock").touch()
    return tmp_path


@pytest.mark.long
@pytest.mark.nightly
@pytest.mark.parametrize(
    "words, expected",
    [
        ("turngate pr", ["probe"]),
        ("turngate probe c", ["claude", "codex", "copilot"]),
        ("turngate probe codex", ["codex", "codex@0.169.0", "codex@0.170.0"]),
        ("turngate probe qwe", ["qwen"]),
        ("turngate probe qwen@", ["qwen@0.1.0"]),
        ("turngate probe qwen codex@0.17", ["codex@0.170.0"]),
        ("turngate gate codex@0.16", ["codex@0.169.0"]),
        ("turngate gate codex@0.170.0 --from codex@0.16", ["codex@0.169.0"]),
        ("turngate engines install gem", ["gemini"]),
        ("turngate matrix open", ["opencode"]),
        ("turngate bisect cod", ["codex"]),
        ("turngate bisect codex resume.acc", ["resume.accepted"]),
        ("turngate probe --clause upgrade.res", ["upgrade.resume"]),
        ("turngate contracts record ge", ["gemini"]),
        ("turngate simulate cl", ["claude"]),
        ("turngate start cod", ["codex"]),
        ("turngate start codex co", []),
        ("turngate probe --fail-on d", ["degraded"]),
        ("turngate probe --ver", ["--verbose"]),
    ],
)
def test_a_word_is_completed(words: str, expected: list[str], cache: Path) -> None:
    """Commands, options and their values, engines, releases in the cache, and clauses."""
    assert completed(words, cache) == expected


def test_everything_is_offered_where_nothing_is_typed(cache: Path) -> None:
    """Without a typed word, all engines or all clauses of the catalogue are offered."""
    assert completed("turngate probe ", cache) == list(load.engine_names())
    assert completed("turngate bisect codex ", cache) == list(catalogue())


def test_own_contracts_are_completed(cache: Path) -> None:
    """Engines in a folder that overrides the bundled contracts are completed too."""
    (cache / "mine" / "engines").mkdir(parents=True)
    (cache / "mine" / "engines" / "kodex.yaml").touch()
    assert completed("turngate probe ko", cache, TURNGATE_CONTRACTS=str(cache / "mine")) == ["kodex"]
    assert completed(f"turngate --contracts {cache}/mine probe ko", cache) == ["kodex"]


def test_completion_is_quick(cache: Path) -> None:
    """Completion imports no module that reads contracts, runs processes or prints reports."""
    code = f"import atexit, sys; atexit.register(lambda: print(*sys.modules, sep=chr(10))); {REAL}"
    loaded = set(completed("turngate probe codex", cache, code))
    assert {"codex@0.169.0", "turngate_probes.cli.probe"} <= loaded
    assert not {"rich", "yaml", "jsonschema", "flask", "turngate.contract.load", "turngate.process"} & loaded


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_a_script(shell: str) -> None:
    """Each shell gets a script; shells installed on this machine check its syntax."""
    env = {**os.environ, "_TURNGATE_COMPLETE": f"{shell}_source"}
    script = subprocess.run([sys.executable, "-c", REAL], env=env, capture_output=True, text=True, check=True).stdout
    assert "_TURNGATE_COMPLETE" in script
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True)
