"""Installs the fake engines as executables: headless, sticky, and one for chaos tests that is both."""

import sys
from pathlib import Path

# isolated and without site packages, since they start often
_SOURCE = f"""#!{sys.executable} -IS
import sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.fakes.MODULE import main
sys.exit(main(ARGUMENTS))
"""
# the release and the fifo are for an engine without plays
HEADLESS = _SOURCE.replace("MODULE", "headless_engine").replace("ARGUMENTS", '"codex-cli 0.169.0", "meeting"')


def headless(executable: Path) -> Path:
    """Install the headless engine as an executable, which plays the files next to it."""
    return _written(executable, HEADLESS)


def sticky(executable: Path, version: str = "", help_page: str = "") -> Path:
    """Install the sticky engine as an executable."""
    source = _SOURCE.replace("MODULE", "sticky_engine").replace("ARGUMENTS", f"{version!r}, {help_page!r}")
    return _written(executable, source)


def chaotic(executable: Path, version: str, help_page: str) -> Path:
    """Install the engine of the chaos tests as an executable."""
    source = _SOURCE.replace("MODULE", "chaos_engine").replace("ARGUMENTS", f"{version!r}, {help_page!r}")
    return _written(executable, source)


def _written(executable: Path, source: str) -> Path:
    executable.parent.mkdir(parents=True, exist_ok=True)
    executable.write_text(source)
    executable.chmod(0o755)
    return executable
